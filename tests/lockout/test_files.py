"""Files of the user's that cannot be used, and odd ones that can."""

from __future__ import annotations

from typing import Any

import pytest

BROKEN = "raise ValueError('broken on purpose')\n"
RUNS = "def apply(ctx, config): pass\n"


def _bomb(indent: str) -> str:
    """A mapping of a few hundred bytes that stands for more than 10**9 values."""
    values = ["1", *(f"*a{level}" for level in range(8))]
    return "".join(
        f"{indent}a{level}: &a{level} [{', '.join([value] * 10)}]\n"
        for level, value in enumerate(values)
    )


UNUSABLE = {
    f"- id: tools\n  config:\n{_bomb('    ')}": "aliases stand for more than 100,000 values",
    f"- insert: [{{id: a, name: x, config: {'[' * 200}{']' * 200}}}]\n": "nest",
    "- insert:\n    - id: a\n      name: x\n      config: &c {c: *c}\n": "contain itself",
    "- insert: [{id: 3, name: x}]\n": "`id` must be text",
    "- insert: [{id: a, name: x, config: !!python/name:os.system }]\n": "unknown tag",
    "[]\n---\n[]\n": "another document",
}
"""What a patch file holds, and what is said of it."""


def test_a_file_that_stands_for_what_no_row_can_be_is_left_out(user: Any) -> None:
    for text, reason in UNUSABLE.items():
        user.patch.write_text(text)
        (line,) = user.done()
        assert line.startswith(f"dsh: {user.patch} is left out: ")
        assert reason in line
    assert user.done("--safe") == []
    refused, _ = user.refused("--strict")
    assert refused == line.replace("is left out", "cannot be used")
    user.patch.write_text("[]\n")  # as the line says
    assert user.done() == []


@pytest.mark.parametrize("encode", ["\ufeff{}", "{}\r\n"])
def test_a_file_as_other_editors_write_it_is_used(user: Any, encode: str) -> None:
    user.plugins(broken=BROKEN)
    text = encode.format("- insert: [{id: b, name: ./broken.py}]")
    user.patch.write_text(text, encoding="utf-8", newline="")
    lines = user.done()
    assert [line.split("'")[1] for line in lines] == ["b"]
    user.follow(lines)
    assert user.done("--strict") == []


@pytest.mark.parametrize("name", ["a{b}.yml", "it's mine.yml", "-.yml"])
def test_an_overlay_of_any_name_is_told_as_it_is_typed(user: Any, name: str) -> None:
    user.plugins(broken=BROKEN)
    overlay = user.dsh.workspace / name
    overlay.write_text(f"- insert: [{{id: b, name: {user.profile / 'broken.py'}}}]\n")
    (line,) = user.done(f"--patch={name}")
    assert f"it comes from {overlay}; leave out --patch " in line
    assert user.done() == []


def test_an_overlay_that_changes_a_bundle_row_badly_is_told_to_be_left_out(user: Any) -> None:
    overlay = user.dsh.workspace / "mine.yml"
    overlay.write_text("- {id: tools, inject: [never_there]}\n")
    (line,) = user.done("--patch", "mine.yml")
    assert line.startswith("dsh: row 'tools' (dsh-tools) runs without the changes of ")
    assert line.endswith(f"; leave out --patch {overlay}")
    assert user.done() == []


def test_an_overlay_that_cannot_be_used_is_refused_since_it_was_just_typed(user: Any) -> None:
    (user.dsh.workspace / "empty.yml").write_text("")
    (line,) = user.refused("--patch", "empty.yml")
    assert "empty.yml" in line
    assert "write [] for none" in line


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (None, "config file not found"),
        ("- {id: a, name: ./runs.py}\n\t- b\n", "more.yml:2:1"),
        ("- {id: again, name: 'cordis:include', config: {path: more.yml}}\n", "includes itself"),
        ("- {id: a, name: 'cordis:include', config: {path: other.yml}}\n", "includes itself"),
    ],
)
def test_an_include_that_cannot_be_used_is_left_out(
    user: Any, more: str | None, reason: str
) -> None:
    user.plugins(runs=RUNS)
    user.patch.write_text("- insert: [{id: i, name: 'cordis:include', config: {path: more.yml}}]\n")
    (user.profile / "other.yml").write_text(
        "- {id: back, name: 'cordis:include', config: {path: ./more.yml}}\n"
    )
    if more is not None:
        (user.profile / "more.yml").write_text(more)
    (line,) = user.done()
    assert line.startswith("dsh: row 'i' (cordis:include) is left out: ")
    assert reason in line
    user.follow([line])
    assert user.done("--strict") == []


def test_a_profile_that_lists_a_bundle_too_many_starts_without_it(user: Any) -> None:
    manifest = user.profile / "pyproject.toml"
    shipped = manifest.read_text()
    manifest.write_text(shipped.replace('"dsh-headless"', '"dsh-headless", "dsh-haedless"'))
    (line,) = user.done()
    assert line.startswith("dsh: dsh-haedless is left out: ")
    assert "did you mean dsh-headless?" in line
    assert user.done("--safe") == []
    assert line.replace("is left out", "cannot be used") in user.refused("--strict")
    manifest.write_text(shipped)
    assert user.done() == []


@pytest.mark.parametrize("text", ["", "\0", "[tool.dsh.profile\n"])
def test_a_damaged_profile_starts_as_it_was_shipped_when_asked_to(user: Any, text: str) -> None:
    (user.profile / "pyproject.toml").write_text(text)
    (line,) = user.refused()
    assert "dsh headless --safe" in line
    (warning,) = user.done("--safe")
    assert str(user.profile / "pyproject.toml") in warning
