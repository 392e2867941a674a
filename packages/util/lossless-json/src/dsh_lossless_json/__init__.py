"""JSON values that survive a round trip unchanged, frozen, and the codec of records."""

from __future__ import annotations

from ._codec import Opaque, OpenUnion, convert, decoder, encode
from ._errors import LosslessJsonError
from ._frozen import MAX_DEPTH, FrozenDict, FrozenJson, freeze, thaw
from ._text import repaired, unsafe_text

# One more than a dozen: the look for bad text and its repair belong together.
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
    "repaired",
    "thaw",
    "unsafe_text",
)
