"""An assembly to text: variables put in, empty parts dropped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dsh_llm import PromptSection

from ._errors import SystemPromptError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ._types import Assembly

VARIABLE_NAME: Final = re.compile("[a-z][a-z0-9_]*")

_CONTEXT_PREAMBLE: Final = (
    "Current runtime context. It replaces every earlier snapshot in this conversation."
)


def render_prompt(assembly: Assembly) -> str:
    """The system prompt: every non-empty section, separated by blank lines.

    Raises `SystemPromptError` (`MALFORMED_TEMPLATE`, `UNKNOWN_VARIABLE`, `VARIABLE_WITHOUT_VALUE`)
    naming the section.
    """
    rendered = _rendered(assembly.sections, assembly.variables, "section")
    return "\n\n".join(section.text for section in rendered)


def render_context_sections(assembly: Assembly) -> tuple[PromptSection, ...]:
    """The non-empty runtime contexts with their variables put in. Errors as `render_prompt`."""
    return tuple(_rendered(assembly.contexts, assembly.variables, "context"))


def join_context_sections(sections: Iterable[PromptSection]) -> str:
    """One text of rendered contexts, with a line that says what it is; empty for none."""
    texts = [section.text for section in sections]
    return "\n\n".join((_CONTEXT_PREAMBLE, *texts)) if texts else ""


def render_context_snapshot(assembly: Assembly) -> str:
    """The runtime contexts as the one text that the model gets; empty for none."""
    return join_context_sections(render_context_sections(assembly))


def _rendered(
    sections: Iterable[PromptSection], variables: Mapping[str, str | None], kind: str
) -> list[PromptSection]:
    out: list[PromptSection] = []
    for section in sections:
        text = _interpolate(section.text, variables, f"{kind} {section.name!r}")
        if text.strip():
            out.append(PromptSection(section.name, text))
    return out


def _interpolate(text: str, variables: Mapping[str, str | None], where: str) -> str:
    """`text` with each `{{name}}` replaced; values are not looked into again."""
    if "{{" not in text:
        return text
    out: list[str] = []
    position = 0
    while (start := text.find("{{", position)) >= 0:
        end = text.find("}}", start + 2)
        if end < 0:
            break  # a lone opener is text, in code samples for one
        name = text[start + 2 : end]
        after = end + 2
        if not VARIABLE_NAME.fullmatch(name) or text[after : after + 1] == "}":
            shown = text[start : after + 1] if text[after : after + 1] == "}" else text[start:after]
            message = f"{where} has a malformed group {shown[:80]!r}: write {{{{name}}}}"
            raise SystemPromptError(message, code="MALFORMED_TEMPLATE")
        out += (text[position:start], _value(name, variables, where))
        position = after
    out.append(text[position:])
    return "".join(out)


def _value(name: str, variables: Mapping[str, str | None], where: str) -> str:
    if name not in variables:
        known = ", ".join(sorted(variables)) or "none"
        message = f"{where} uses the unknown variable {name!r}; known: {known}"
        raise SystemPromptError(message, code="UNKNOWN_VARIABLE")
    value = variables[name]
    if value is None:
        message = f"{where} uses the variable {name!r}, which has no value here"
        raise SystemPromptError(message, code="VARIABLE_WITHOUT_VALUE")
    return value
