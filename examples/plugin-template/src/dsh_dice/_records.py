"""What the session log keeps of a roll."""

from __future__ import annotations

import msgspec
from dsh_session import LogEvent


class DiceRolled(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One roll."""

    sides: int
    numbers: tuple[int, ...]


DICE_ROLLED = LogEvent("dice/rolled", DiceRolled)
