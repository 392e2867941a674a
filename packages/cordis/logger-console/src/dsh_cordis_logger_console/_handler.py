"""From a record to coloured lines."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import IO, Final, Literal, TypeAlias

from dsh_cordis import current_fiber
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from rich.traceback import Traceback

Colours: TypeAlias = Literal["auto", "always", "never"]

_SYSTEMS: Final[Mapping[Colours, Literal["auto", "standard"] | None]] = {
    "auto": "auto",
    "always": "standard",
    "never": None,
}
_STYLES: Final = {
    "DEBUG": "dim",
    "INFO": "green",
    "WARNING": "yellow",
    "ERROR": "bold red",
    "CRITICAL": "bold white on red",
}
_LEVEL_WIDTH: Final = max(map(len, _STYLES))
_TRACEBACK_WIDTH: Final = 100
"""Columns of a traceback where nothing else is folded."""

_VISIBLE: Final = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (9, 10)
}
"""Controls, which could move the cursor, hide text or ring: shown instead of obeyed."""


class ConsoleHandler(logging.Handler):
    """Writes each record to stderr as it stands at that moment; it never raises."""

    def __init__(self, *, show_time: bool, width: int | None, colours: Colours) -> None:
        super().__init__()
        self._show_time = show_time
        self._width = width
        self._colours: Colours = colours

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        stream = sys.stderr
        if stream is None:  # pyright: ignore[reportUnnecessaryComparison] - None when started with it closed
            return
        try:
            stream.write(self._rendered(record, stream))
            stream.flush()
        except (OSError, ValueError):
            # Nobody reads stderr: there is no better place for the complaint.
            return
        except Exception:  # noqa: BLE001 - logging must not raise into what it reports
            self.handleError(record)

    def _rendered(self, record: logging.LogRecord, stream: IO[str]) -> str:
        # Rendered apart from writing: on a closed pipe rich would end the process.
        console = self._console(stream)
        folded = self._width is not None or console.is_terminal
        with console.capture() as capture:
            console.print(_Visible(self._line(record, folded=folded)), soft_wrap=not folded)
            if record.exc_info and record.exc_info[1] is not None:
                width = console.width if folded else _TRACEBACK_WIDTH
                console.print(_Visible(_traceback(record.exc_info[1], width)))
            elif record.exc_text:
                console.print(_Visible(Text(record.exc_text)), soft_wrap=True)
            if record.stack_info:
                console.print(_Visible(Text(record.stack_info)), soft_wrap=True)
        return capture.get()

    def _console(self, stream: IO[str]) -> Console:
        colours = self._colours
        if colours == "auto" and os.environ.get("NO_COLOR"):
            colours = "never"
        return Console(
            file=stream,
            width=self._width,
            color_system=_SYSTEMS[colours],
            force_terminal=True if colours == "always" else None,
            no_color=colours == "never",
            highlight=False,
            markup=False,
            emoji=False,
        )

    def _line(self, record: logging.LogRecord, *, folded: bool) -> RenderableType:
        cells = [
            Text(record.levelname.ljust(_LEVEL_WIDTH), _STYLES.get(record.levelname, "")),
            Text(_owner(record), "cyan"),
            Text(record.name, "dim"),
        ]
        if self._show_time:
            cells.insert(0, Text(_time(record), "dim"))
        message = record.getMessage().translate(_VISIBLE)
        if not folded:
            # Indented, so that no message can look like two records.
            return Text(" ").join([*cells, Text(message.replace("\n", "\n    "))])
        line = Table.grid(padding=(0, 1))
        for _ in cells:
            line.add_column(no_wrap=True)
        line.add_column(ratio=1, overflow="fold")
        line.add_row(*cells, Text(message))
        return line


class _Visible:
    """Renders something without the controls in its text."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self._inner, options):
            if segment.control:
                yield segment
            else:
                yield Segment(segment.text.translate(_VISIBLE), segment.style)


def _traceback(error: BaseException, width: int) -> Traceback:
    # Never with local variables: they hold what no log should.
    return Traceback.from_exception(
        type(error), error, error.__traceback__, width=width, word_wrap=True, show_locals=False
    )


def _owner(record: logging.LogRecord) -> str:
    """The plugin that it belongs to: the one it names, else the one that is running."""
    named: object = getattr(record, "fiber", None)
    if isinstance(named, str):
        return named
    fiber = current_fiber()
    return "-" if fiber is None else fiber.name


def _time(record: logging.LogRecord) -> str:
    clock = time.strftime("%H:%M:%S", time.localtime(record.created))
    return f"{clock}.{int(record.msecs):03d}"
