from __future__ import annotations

import argparse

import pytest
from dsh_cmdline import APP_EXIT, CMDLINE, AppExit, CmdlineError, CommandLine, parse_cmdline
from dsh_cordis import Context, ServiceKey

pytestmark = pytest.mark.anyio

PORT = ServiceKey[int]("port")


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="app")
    result.add_argument("--port", type=int, default=3080)
    return result


def startup(ctx: Context, config: object) -> None:
    parsed = parse_cmdline(ctx, parser())
    if parsed is not None:
        ctx.provide(PORT, parsed.port)


async def run(*args: str) -> tuple[int | None, list[int]]:
    codes: list[int] = []
    async with Context() as root:
        root.provide(CMDLINE, CommandLine(args))
        root.provide(APP_EXIT, AppExit(codes.append))
        await root.plugin(startup)
        return root.get(PORT), codes


async def test_parsed_arguments_are_published():
    assert await run("--port", "8080") == (8080, [])
    assert await run() == (3080, [])


async def test_help_prints_asks_for_the_end_and_publishes_nothing(
    capsys: pytest.CaptureFixture[str],
):
    assert await run("--help") == (None, [0])
    assert "--port" in capsys.readouterr().out


async def test_a_usage_error_ends_with_one_and_publishes_nothing(
    capsys: pytest.CaptureFixture[str],
):
    assert await run("--port", "abc") == (None, [1])
    output = capsys.readouterr()
    assert output.out == ""
    assert "invalid int value" in output.err


async def test_a_reader_of_the_published_value_never_starts_after_a_usage_error():
    started: list[int] = []
    async with Context() as root:
        root.provide(CMDLINE, CommandLine(("--port", "x")))
        root.provide(APP_EXIT, AppExit(lambda code: None))
        root.inject([PORT], lambda ctx: started.append(ctx[PORT]))
        await root.plugin(startup)
    assert started == []


async def test_parsing_without_a_launcher_is_refused():
    async with Context() as root:
        with pytest.raises(CmdlineError) as caught:
            parse_cmdline(root, parser())
    assert caught.value.code == "LAUNCHER_MISSING"
    assert str(caught.value) == (
        "app: the launcher must provide ctx.cmdline_args and ctx.app_exit before the tree mounts"
    )


async def test_arguments_are_shared_and_not_consumed():
    async with Context() as root:
        root.provide(CMDLINE, CommandLine(("--port", "1")))
        root.provide(APP_EXIT, AppExit(lambda code: None))
        first, second = parse_cmdline(root, parser()), parse_cmdline(root, parser())
    assert first == second


def test_a_one_shot_turn_is_open_while_any_is():
    app_exit = AppExit(lambda code: None)
    assert not app_exit.one_shot_open
    with app_exit.one_shot():
        with pytest.raises(ValueError, match="inner"), app_exit.one_shot():
            raise ValueError("inner")
        assert app_exit.one_shot_open
    assert not app_exit.one_shot_open
