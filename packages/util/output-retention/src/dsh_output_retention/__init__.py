"""Bounded retention of items and text that says what it left out."""

from __future__ import annotations

from ._items import ItemRetainer, RetainedItems
from ._omitted import ExactlyOmitted, NothingOmitted, Omitted, UnknownOmitted, describe_omitted
from ._pushed import Pushed
from ._text import RetainedText, TextRetainer

__all__ = (
    "ExactlyOmitted",
    "ItemRetainer",
    "NothingOmitted",
    "Omitted",
    "Pushed",
    "RetainedItems",
    "RetainedText",
    "TextRetainer",
    "UnknownOmitted",
    "describe_omitted",
)
