"""JSON values that survive a round trip unchanged, frozen, and the codec of records."""

from __future__ import annotations

from ._codec import Opaque, OpenUnion, convert, decoder, encode
from ._errors import LosslessJsonError
from ._frozen import MAX_DEPTH, FrozenDict, FrozenJson, freeze, thaw, unsafe_text

__all__ = (
    "MAX_DEPTH",
    "FrozenDict",
    "FrozenJson",
    "LosslessJsonError",
    "Opaque",
    "OpenUnion",
    "convert",
    "decoder",
    "encode",
    "freeze",
    "thaw",
    "unsafe_text",
)
