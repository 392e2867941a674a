"""Warnings and errors of plugins on stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection
from typing import Final

KERNEL_LOGGER: Final = "dsh.cordis"
HANDLER_NAME: Final = "dsh.stderr"
"""What a richer handler knows it by and takes the place of."""


class StderrHandler(logging.Handler):
    """Writes `dsh: warning: message` lines, and holds the kernel's back while a boot decides.

    A boot that fails reports its failing rows itself, so what the kernel said of them is dropped.
    """

    def __init__(self, program: str = "dsh") -> None:
        super().__init__(logging.WARNING)
        self.set_name(HANDLER_NAME)
        self._program = program
        self._held: list[logging.LogRecord] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write or hold one record."""
        if self._held is not None and record.name == KERNEL_LOGGER:
            self._held.append(record)
            return
        try:
            sys.stderr.write(self._line(record))
            sys.stderr.flush()
        except (OSError, ValueError):
            # Nobody reads stderr: there is no better place for the complaint.
            return
        except Exception:  # noqa: BLE001 - logging must not raise into what it reports
            self.handleError(record)

    def hold(self) -> None:
        """Keep the kernel's records until `resume`."""
        self._held = []

    def resume(self, *, drop: bool, told: Collection[str] = ()) -> None:
        """Write or drop what was held, and hold no more.

        `told` are rows reported otherwise, with those that they include.
        """
        held, self._held = self._held or [], None
        if not drop:
            for record in held:
                fiber = str(getattr(record, "fiber", ""))
                if fiber not in told and fiber.partition(":")[0] not in told:
                    self.emit(record)

    def _line(self, record: logging.LogRecord) -> str:
        message = record.getMessage().removeprefix(f"{self._program}: ")
        line = f"{self._program}: {record.levelname.lower()}: {message}\n"
        if record.exc_info:
            line += logging.Formatter().formatException(record.exc_info) + "\n"
        return line
