"""The command line of a run, parsed by its row."""

from __future__ import annotations

import pytest
from dsh_cmdline import APP_EXIT, CMDLINE, AppExit, CommandLine
from dsh_cordis import Context
from dsh_headless import HEADLESS_STARTUP, StartupOptions, startup

pytestmark = pytest.mark.anyio


async def parsed(*args: str) -> tuple[StartupOptions | None, list[int]]:
    """What the row publishes, and the exits that it asks for."""
    codes: list[int] = []
    async with Context() as root:
        root.provide(CMDLINE, CommandLine(args))
        root.provide(APP_EXIT, AppExit(codes.append))
        await root.plugin(startup)
        return root.get(HEADLESS_STARTUP), codes


async def test_words_are_joined_by_one_space() -> None:
    options, codes = await parsed("run", "the", "tests")
    assert options == StartupOptions(task="run the tests", json=False, session_id="", model="")
    assert codes == []


@pytest.mark.parametrize(
    "args",
    [
        ("--json", "--session-id", "s1", "--model", "p/m", "do", "it"),
        ("do", "it", "--model=p/m", "--json", "--session-id=s1"),
    ],
)
async def test_options_stand_before_or_after_the_words(args: tuple[str, ...]) -> None:
    options, _codes = await parsed(*args)
    assert options is not None
    assert options.expression_fields() == {
        "task": "do it",
        "json": True,
        "sessionId": "s1",
        "model": "p/m",
    }


async def test_a_dash_among_words_is_a_word() -> None:
    options, _codes = await parsed("-", "and", "more")
    assert options is not None
    assert options.task == "- and more"


async def test_after_a_double_dash_everything_is_a_word() -> None:
    options, _codes = await parsed("--", "--json", "-x")
    assert options is not None
    assert (options.task, options.json) == ("--json -x", False)


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ((), "a task is required"),
        (("", " \n"), "a task is required"),
        (("--session-id", "", "go"), "--session-id: needs a value"),
        (("--model", " ", "go"), "--model: needs a value"),
        (("--sess", "x", "go"), "unrecognized arguments: --sess"),
        (("--nonsense", "go"), "unrecognized arguments: --nonsense"),
    ],
)
async def test_misuse_asks_for_exit_1_and_publishes_nothing(
    args: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options, codes = await parsed(*args)
    out, err = capsys.readouterr()
    assert (options, codes, out) == (None, [1], "")
    assert err.startswith("usage: dsh headless")
    assert complaint in err


async def test_help_asks_for_exit_0_and_publishes_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options, codes = await parsed("--help")
    assert (options, codes) == (None, [0])
    assert "go on with a stored session" in capsys.readouterr().out
