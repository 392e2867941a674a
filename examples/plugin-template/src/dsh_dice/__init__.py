"""A die for agents."""

from __future__ import annotations

from ._plugin import Config, apply, inject
from ._records import DICE_ROLLED, DiceRolled

__all__ = ("DICE_ROLLED", "Config", "DiceRolled", "apply", "inject")
