"""Log records on the terminal, with colours and owners."""

from __future__ import annotations

from ._errors import ConsoleLoggerError
from ._plugin import ConsoleLogger, ConsoleLoggerConfig

__all__ = ("ConsoleLogger", "ConsoleLoggerConfig", "ConsoleLoggerError")
