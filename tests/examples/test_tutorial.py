"""The page about the kernel shows the files of its tutorial, and what they print."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples/kernel-tutorial"


@pytest.fixture(scope="module")
def tutorial() -> Any:
    spec = importlib.util.spec_from_file_location("dsh_docs_tutorial", ROOT / "docs/tutorial.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page(tutorial: Any) -> str:
    return tutorial.PAGE.read_text("utf-8")


def blocks(page: str, tutorial: Any) -> dict[tuple[str, str], str]:
    found = {}
    for match in tutorial.BLOCK.finditer(page):
        text = match.group().removeprefix(match[1]).removesuffix(match[4])
        found[match["kind"], match["name"]] = text
    return found


def test_the_page_shows_every_file_of_the_tutorial(page: str, tutorial: Any) -> None:
    shown = {name: text for (kind, name), text in blocks(page, tutorial).items() if kind == "file"}
    files = {path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".yml")}
    assert set(shown) == files
    for name, text in shown.items():
        assert text.strip(), name
        assert text in (FOLDER / name).read_text("utf-8"), name


def steps() -> list[str]:
    return sorted(path.name for path in FOLDER.glob("step*.py"))


@pytest.mark.parametrize("name", steps())
def test_a_step_prints_what_the_page_says(page: str, tutorial: Any, name: str) -> None:
    expected = blocks(page, tutorial)["output", name]
    assert expected.strip()
    assert tutorial.printed(name).rstrip("\n") + "\n" == expected


def test_the_tutorial_has_seven_steps_in_order(page: str) -> None:
    assert re.findall(r"^### (\d)\.", page, re.MULTILINE) == list("1234567")
    assert [name[4] for name in steps()] == list("1234567")
    assert re.findall(r"^\*\*(\d)\.", page, re.MULTILINE) == list("12345")


def test_links_of_the_page_lead_somewhere(page: str) -> None:
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page, flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert len(links) > 5
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
