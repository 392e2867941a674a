"""What a retainer says to each push."""

from __future__ import annotations

import msgspec


class Pushed(msgspec.Struct, frozen=True, gc=False):
    """What became of one push."""

    kept: bool
    """Whether any of what was pushed is held."""
    truncated: bool
    """Whether anything has been left out so far, of this push or of an earlier one."""
