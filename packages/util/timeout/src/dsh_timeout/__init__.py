"""Deadlines and idle watchdogs over abort signals.

They only tell: a timer that runs out aborts a signal, and whoever waits must heed that signal.
"""

from __future__ import annotations

from ._clamp import clamp_timeout
from ._deadline import TimeoutReason, deadline, timeout_of
from ._watchdog import IdleWatchdog

__all__ = ("IdleWatchdog", "TimeoutReason", "clamp_timeout", "deadline", "timeout_of")
