"""Timers owned by the plugin that starts them."""

from __future__ import annotations

from ._errors import TimerError
from ._paced import Debounced, Throttled
from ._timers import TIMER, Timers

__all__ = ("TIMER", "Debounced", "Throttled", "TimerError", "Timers")
