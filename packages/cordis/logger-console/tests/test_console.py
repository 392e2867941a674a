"""A real root, real loggers and a real stream: a file or a terminal in the place of stderr."""

from __future__ import annotations

import contextlib
import logging
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
from dsh_cordis import ConfigError, Context, CordisError, Emit, Fiber
from dsh_cordis_logger_console import ConsoleLogger

pytestmark = pytest.mark.anyio

TOLD = Emit[str]("test/told", contained=True)
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
async def root() -> AsyncIterator[Context]:
    async with Context() as root:
        yield root


class Plain(logging.Handler):
    """What the launcher installs, by its name; it must not see what the console shows."""

    def __init__(self) -> None:
        super().__init__()
        self.set_name("dsh.stderr")
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage())


@pytest.fixture
def plain() -> Iterator[Plain]:
    logger, handler = logging.getLogger("dsh"), Plain()
    logger.addHandler(handler)
    before = (logger.level, list(logger.handlers))
    yield handler
    assert (logger.level, list(logger.handlers)) == before, "the log is as it was"
    logger.removeHandler(handler)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


class Stream:
    """What stands in the place of stderr from the moment that a console is mounted."""

    def __init__(self, patch: pytest.MonkeyPatch, stream: IO[str], read: Callable[[], str]) -> None:
        self._patch = patch
        self._stream = stream
        self.text = read

    async def console(self, root: Context, **config: object) -> Fiber:
        # Not in the fixture: pytest captures the setup and the call of a test apart.
        self._patch.setattr(sys, "stderr", self._stream)
        return await root.plugin(ConsoleLogger, config)

    @property
    def lines(self) -> list[str]:
        return self.text().splitlines()


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    """A file."""
    file = tmp_path / "log"
    with file.open("w", encoding="utf-8", errors="backslashreplace") as stream:
        yield Stream(monkeypatch, stream, lambda: file.read_text("utf-8"))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    """A terminal of 80 columns; it can be read once something was written."""
    master, slave = pty.openpty()
    monkeypatch.setenv("COLUMNS", "80")
    with os.fdopen(slave, "w", encoding="utf-8", buffering=1) as stream:
        read = lambda: os.read(master, 65536).decode().replace("\r\n", "\n")  # noqa: E731
        yield Stream(monkeypatch, stream, read)
    os.close(master)


async def test_a_line_has_time_level_owner_logger_and_message(
    root: Context, plain: Plain, log: Stream
) -> None:
    async def body(ctx: Context, _config: object) -> None:
        logging.getLogger("dsh.tools").warning("%d tools are slow", 2)

    async with Context() as inner:
        await log.console(inner)
        await inner.plugin(body, name="greeter")
        logging.getLogger("dsh.tools").warning("nobody runs")
    first, second = log.lines
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d\.\d{3} WARNING  greeter dsh\.tools 2 tools are slow", first
    )
    assert second.endswith(" WARNING  - dsh.tools nobody runs")


async def test_a_record_that_names_its_plugin_is_shown_under_it(
    root: Context, plain: Plain, log: Stream
) -> None:
    def fail(_text: str) -> None:
        raise CordisError("the door is closed", code="CLOSED")

    fiber = await log.console(root, showTime=False)
    await root.plugin(lambda ctx, _config: ctx.on(TOLD, fail), name="door")
    root.emit(TOLD, "knock")
    await fiber.dispose()
    assert log.text().startswith("ERROR    door dsh.cordis ")
    assert "the door is closed" in log.text()


async def test_while_mounted_it_stands_in_for_the_plain_handler_and_gives_its_place_back(
    root: Context, plain: Plain, log: Stream
) -> None:
    logger = logging.getLogger("dsh.x")
    fiber = await log.console(root)
    logger.warning("while")
    await fiber.dispose()
    logger.warning("after")
    assert plain.seen == ["after"]
    assert [line.split()[-1] for line in log.lines] == ["while"]


async def test_levels_are_set_for_single_loggers_and_what_is_below_them(
    root: Context, plain: Plain, log: Stream
) -> None:
    config = {"level": "error", "levels": {"dsh.loud": "debug", "dsh.loud.but": "warning"}}
    fiber = await log.console(root, **config)
    for name in ("dsh.other", "dsh.loud", "dsh.loud.child", "dsh.loud.but"):
        for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            logging.getLogger(name).log(level, "said")
    await fiber.dispose()
    shown = [" ".join(line.split()[1:4:2]) for line in log.lines]
    both = [
        f"{level} {name}"
        for name in ("dsh.loud", "dsh.loud.child")
        for level in ("DEBUG", "INFO", "WARNING", "ERROR")
    ]
    assert shown == [
        "ERROR dsh.other",
        *both,
        "WARNING dsh.loud.but",
        "ERROR dsh.loud.but",
    ]
    assert logging.getLogger("dsh.loud").level == logging.NOTSET


async def test_an_update_takes_the_new_levels_and_forgets_the_old_ones(
    root: Context, plain: Plain, log: Stream
) -> None:
    fiber = await log.console(root, levels={"dsh.a": "debug"})
    await fiber.update({"levels": {"dsh.b": "debug"}})
    logging.getLogger("dsh.a").debug("one")
    logging.getLogger("dsh.b").debug("two")
    await fiber.dispose()
    assert [line.split()[-1] for line in log.lines] == ["two"]


async def test_a_terminal_gets_colours_and_a_file_none(
    root: Context, plain: Plain, terminal: Stream
) -> None:
    fiber = await terminal.console(root)
    logging.getLogger("dsh.x").error("red")
    await fiber.dispose()
    assert "\x1b[1;31mERROR" in terminal.text()


@pytest.mark.parametrize(
    ("variable", "colours", "coloured"),
    [
        ("1", "auto", False),
        ("", "auto", True),
        ("1", "always", True),
        ("", "never", False),
    ],
)
async def test_no_color_turns_automatic_colours_off_and_nothing_else(
    root: Context,
    plain: Plain,
    terminal: Stream,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    colours: str,
    coloured: bool,
) -> None:
    monkeypatch.setenv("NO_COLOR", variable)
    fiber = await terminal.console(root, colours=colours)
    logging.getLogger("dsh.x").error("red")
    await fiber.dispose()
    assert bool(ESCAPES.search(terminal.text())) is coloured


async def test_colours_can_be_asked_for_in_a_file(root: Context, plain: Plain, log: Stream) -> None:
    fiber = await log.console(root, colours="always")
    logging.getLogger("dsh.x").error("red")
    await fiber.dispose()
    assert "\x1b[1;31mERROR" in log.text()
    assert ESCAPES.sub("", log.text()).endswith("dsh.x red\n")


async def test_long_messages_are_folded_at_the_width_and_elsewhere_kept_whole(
    root: Context, plain: Plain, log: Stream
) -> None:
    message = "word " * 60
    wide = await log.console(root)
    logging.getLogger("dsh.x").error(message)
    assert len(log.lines) == 1
    await wide.dispose()
    narrow = await log.console(root, width=60)
    logging.getLogger("dsh.x").error(message)
    await narrow.dispose()
    folded = log.lines[1:]
    assert len(folded) > 5
    assert max(map(len, folded)) <= 60
    assert "".join(folded).count("word") == 60


async def test_a_traceback_is_folded_and_shows_no_local_values(
    root: Context, plain: Plain, log: Stream
) -> None:
    secret = "".join(["sk", "-", "value"])
    fiber = await log.console(root, width=60)
    try:
        raise LookupError("nothing here " * 10 + str(len(secret)))
    except LookupError:
        logging.getLogger("dsh.x").exception("it failed")
    await fiber.dispose()
    text = log.text()
    assert "LookupError" in text
    assert "test_console.py" in re.sub(r"[\s│]", "", text)
    assert "sk-value" not in text
    assert max(len(line) for line in text.splitlines()) <= 60


async def test_every_member_of_a_group_of_failures_is_shown(
    root: Context, plain: Plain, log: Stream
) -> None:
    fiber = await log.console(root)
    group = ExceptionGroup("two failed", [ValueError("first"), KeyError("second")])
    logging.getLogger("dsh.x").error("it failed", exc_info=group)
    await fiber.dispose()
    for part in ("two failed", "first", "second"):
        assert part in log.text()


async def test_what_a_message_holds_cannot_drive_the_terminal_or_look_like_another_record(
    root: Context, plain: Plain, terminal: Stream
) -> None:
    fiber = await terminal.console(root, colours="never")
    logging.getLogger("dsh.x").error("a\x1b[2Jb\x07c\x9bd [red]e[/red] :smile:")
    try:
        raise ValueError("x\x1b[2Jy")
    except ValueError:
        logging.getLogger("dsh.x").exception("two\nlines")
    await fiber.dispose()
    text = terminal.text()
    assert "a\\x1b[2Jb\\x07c\\x9bd [red]e[/red] :smile:" in " ".join(text.split())
    assert "x\\x1b[2Jy" in text
    assert "\x1b" not in text
    [second] = [line for line in text.splitlines() if line.strip() == "lines"]
    assert second.startswith(" ")


async def test_a_second_console_is_refused_by_name(
    root: Context, plain: Plain, log: Stream
) -> None:
    fiber = await log.console(root)
    with pytest.raises(CordisError) as raised:
        await log.console(root)
    assert raised.value.code == "CONSOLE_MOUNTED"
    logging.getLogger("dsh.x").warning("still here")
    await fiber.dispose()
    assert log.text().count("still here") == 1


@pytest.mark.parametrize(
    "config",
    [
        {"level": "loud"},
        {"levels": {"dsh.x": "loud"}},
        {"levels": {"httpx": "debug"}},
        {"width": 10},
        {"colours": "some"},
        {"colors": "auto"},
    ],
)
async def test_a_configuration_that_cannot_be_meant_is_refused(
    root: Context, plain: Plain, config: dict[str, object]
) -> None:
    with pytest.raises(ConfigError):
        await root.plugin(ConsoleLogger, config)


async def test_a_stream_that_nobody_reads_ends_nothing(
    root: Context, plain: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w", buffering=1)
    monkeypatch.setattr(sys, "stderr", stream)
    fiber = await root.plugin(ConsoleLogger)
    logging.getLogger("dsh.x").error("into the void")
    monkeypatch.setattr(sys, "stderr", None)
    logging.getLogger("dsh.x").error("into nothing")
    await fiber.dispose()
    with contextlib.suppress(BrokenPipeError):
        stream.close()


async def test_records_of_many_threads_stay_whole_lines(
    root: Context, plain: Plain, log: Stream
) -> None:
    fiber = await log.console(root, showTime=False)

    def write(number: int) -> None:
        for _ in range(20):
            logging.getLogger("dsh.x").warning("thread %d", number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    await fiber.dispose()
    lines = log.lines
    assert sorted(set(lines)) == [f"WARNING  - dsh.x thread {number}" for number in range(4)]
    assert len(lines) == 80


def test_importing_it_does_not_import_rich() -> None:
    code = "import dsh_cordis_logger_console, sys; sys.exit('rich' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
