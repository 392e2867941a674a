from __future__ import annotations

import pytest
from dsh_llm import PromptSection
from dsh_system_prompt import (
    Assembly,
    SystemPromptError,
    join_context_sections,
    render_context_sections,
    render_context_snapshot,
    render_prompt,
)
from hypothesis import given
from hypothesis import strategies as st


def assembly(*texts: str, **variables: str | None) -> Assembly:
    sections = tuple(PromptSection(f"s{index}", text) for index, text in enumerate(texts))
    return Assembly(sections=sections, contexts=sections, variables=variables)


def code_of(text: str, **variables: str | None) -> str:
    with pytest.raises(SystemPromptError, match="section 's0'") as caught:
        render_prompt(assembly(text, **variables))
    return caught.value.code


def test_sections_are_joined_by_blank_lines_and_empty_ones_dropped() -> None:
    prompt = assembly("one", "", " \n", "{{nothing}}", "two", nothing="")
    assert render_prompt(prompt) == "one\n\ntwo"


def test_variables_are_put_in_and_their_values_not_looked_into() -> None:
    prompt = assembly("{{a}} and {{b}}{{a}}", a="{{b}}", b="B")
    assert render_prompt(prompt) == "{{b}} and B{{b}}"


@pytest.mark.parametrize(
    "text",
    [
        "{{ model }}",
        "{{}}",
        "{{Model}}",
        "{{{model}}}",
        "{{model}}}",
        "{{1}}",
        "{{a-b}}",
        "{{ x }} {{model}}",
    ],
)
def test_a_group_that_is_no_plain_name_is_malformed(text: str) -> None:
    assert code_of(text, model="m") == "MALFORMED_TEMPLATE"


@pytest.mark.parametrize("text", ["{{fallback", "{ {a} }", "a }} b", "{}", "{a}"])
def test_an_opener_without_a_closer_is_text(text: str) -> None:
    assert render_prompt(assembly(text)) == text


def test_an_unknown_variable_names_the_known_ones() -> None:
    assert code_of("{{constructor}}", model="m") == "UNKNOWN_VARIABLE"
    with pytest.raises(SystemPromptError, match="known: cwd, model"):
        render_prompt(assembly("{{x}}", model="m", cwd="/"))


def test_a_variable_without_a_value_is_refused_where_it_is_used() -> None:
    assert code_of("{{model}}", model=None) == "VARIABLE_WITHOUT_VALUE"
    assert render_prompt(assembly("fine", model=None)) == "fine"


def test_contexts_become_one_snapshot_under_a_line_that_says_what_it_is() -> None:
    facts = assembly("It is {{day}}.", "", "Branch main.", day="Monday")
    sections = render_context_sections(facts)
    assert sections == (
        PromptSection("s0", "It is Monday."),
        PromptSection("s2", "Branch main."),
    )
    snapshot = join_context_sections(sections)
    assert snapshot == render_context_snapshot(facts)
    assert snapshot == (
        "Current runtime context. It replaces every earlier snapshot in this conversation.\n\n"
        "It is Monday.\n\nBranch main."
    )


def test_no_context_is_no_text() -> None:
    assert render_context_snapshot(assembly()) == ""
    assert join_context_sections(()) == ""


def test_an_error_in_a_context_names_it() -> None:
    with pytest.raises(SystemPromptError, match="context 's0'"):
        render_context_snapshot(assembly("{{x}}"))


@given(st.text("{}a \n"))
def test_any_text_is_rendered_or_refused_with_a_code(text: str) -> None:
    try:
        rendered = render_prompt(assembly(text, a="A"))
    except SystemPromptError as error:
        assert error.code in ("MALFORMED_TEMPLATE", "UNKNOWN_VARIABLE")
    else:
        assert "{{a}}" not in rendered


@given(st.lists(st.text("ab}\n", min_size=1)))
def test_text_without_groups_comes_through_unchanged(texts: list[str]) -> None:
    wanted = "\n\n".join(text for text in texts if text.strip())
    assert render_prompt(assembly(*texts)) == wanted
