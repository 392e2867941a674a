"""JSON bytes to typed values and back, with open unions that keep what they do not know.

An open union is a base class, msgspec Struct variants that derive from it, and `Opaque`, which
holds an unknown variant and encodes it again unchanged. Variants may be registered by any package.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar, cast

import msgspec

from ._errors import LosslessJsonError
from ._frozen import FrozenDict, FrozenJson, freeze

T = TypeVar("T")
V = TypeVar("V", bound=msgspec.Struct)


class OpenUnion:
    """Base of an open union: `class Block(OpenUnion, tag_field="type")`.

    Annotate fields with the base. Variants are Structs that derive from it and carry that tag
    field; `@Block.variant` registers one. An object without the tag is refused, one with an
    unknown tag becomes the union's `opaque` class.
    """

    __slots__ = ()
    _variants: ClassVar[dict[str, Any]]
    _tag_field: ClassVar[str]
    opaque: ClassVar[type[Any]]
    """Class of an unknown variant: `.tag` (text) and `.json` (the whole object, frozen)."""

    def __init_subclass__(cls, *, tag_field: str | None = None, **kwargs: Any) -> None:  # noqa: ANN401 - msgspec's own class arguments
        super().__init_subclass__(**kwargs)
        if tag_field is not None and OpenUnion in cls.__bases__:
            cls._tag_field = tag_field
            cls._variants = {}
            cls.opaque = type("Opaque", (Opaque, cls), {"__slots__": (), "__module__": __name__})

    @classmethod
    def variant(cls, struct: type[V]) -> type[V]:
        """Class decorator: register a variant under its msgspec tag.

        Raises `TypeError` for a class that is no Struct of this union with its tag field and a
        text tag, and for a tag that another class has already.
        """
        config = struct.__struct_config__
        tag = config.tag
        if not issubclass(struct, cls) or config.tag_field != cls._tag_field:
            wanted = f"derive from {cls.__name__} and have tag_field={cls._tag_field!r}"
            raise TypeError(f"{struct.__name__} must {wanted}")
        if not isinstance(tag, str):
            raise TypeError(f"{struct.__name__} needs a text tag")
        known = cls._variants.setdefault(tag, struct)
        if known is not struct:
            raise TypeError(f"{cls.__name__} {tag!r} is {known.__name__} already")
        return struct


class Opaque:
    """A variant that nobody here knows: kept, passed by, and written back as it came."""

    __slots__ = ("json", "tag")
    tag: str
    json: FrozenDict

    def __init__(self, tag: str, json: FrozenDict) -> None:
        object.__setattr__(self, "tag", tag)
        object.__setattr__(self, "json", json)

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError("an opaque value is frozen")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.json == other.json

    def __hash__(self) -> int:
        return hash(self.json)

    def __repr__(self) -> str:
        return f"Opaque({self.tag!r}, {dict(self.json)!r})"


def _decode_hook(wanted: Any, value: Any) -> Any:  # noqa: ANN401 - msgspec's hook signature
    if isinstance(wanted, type) and issubclass(wanted, OpenUnion):
        return _decode_variant(wanted, value)
    if wanted is FrozenJson or wanted is FrozenDict:
        return freeze(value)
    raise NotImplementedError(f"no codec for {wanted!r}")


def _decode_variant(union: type[OpenUnion], value: Any) -> Any:  # noqa: ANN401 - any JSON
    tag_field = union._tag_field  # noqa: SLF001 - the codec is the other half of the union
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    tag = fields.get(tag_field)
    if not isinstance(tag, str) or not tag:
        raise ValueError(f"expected an object with a text {tag_field!r}")
    struct = union._variants.get(tag)  # noqa: SLF001 - see above
    if struct is None:
        return union.opaque(tag, freeze(fields))
    try:
        return msgspec.convert(fields, struct, dec_hook=_decode_hook)
    except msgspec.ValidationError as error:
        # msgspec adds the way to this object only to a plain ValueError.
        reason, _, inside = str(error).partition(" - at `$")
        raise ValueError(f"{tag!r}{inside.removesuffix('`')}: {reason}") from None


def _encode_hook(value: Any) -> Any:  # noqa: ANN401 - msgspec's hook signature
    if isinstance(value, Opaque):
        return value.json
    raise TypeError(f"{type(value).__name__} is not a JSON value")


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_hook)


def encode(value: object) -> bytes:
    """Compact UTF-8 JSON of a Struct, a frozen value or plain JSON data.

    Raises `LosslessJsonError` for a lone surrogate or an object that msgspec does not know. It does
    not check what it is given beyond that: NaN becomes null and a set an array, so free data goes
    through `freeze` where it enters.
    """
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise LosslessJsonError(f"{type(value).__name__} cannot be encoded: {error}") from error


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """A JSON decoder for `kind` that knows open unions and `FrozenJson`. Make one, keep it.

    Its `decode` raises `msgspec.DecodeError` for malformed JSON, `msgspec.ValidationError` for the
    wrong shape, `LosslessJsonError` for free JSON that `freeze` refuses, and `RecursionError` for
    arrays a thousand deep.
    """
    return msgspec.json.Decoder(kind, dec_hook=_decode_hook)


def convert(value: object, kind: type[T]) -> T:
    """Plain JSON data to `kind`, as `decoder` would from its bytes and with its errors."""
    return msgspec.convert(value, kind, dec_hook=_decode_hook)
