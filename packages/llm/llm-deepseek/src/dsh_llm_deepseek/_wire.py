"""The provider's stream chunks, read with every tolerance that loses nothing."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec
from dsh_llm import LlmError
from dsh_lossless_json import repaired, unsafe_text

# Plain data without cycles: keeping it from the garbage collector makes decoding faster.


class WireFunction(msgspec.Struct, gc=False):
    """A piece of a call's name and arguments."""

    name: str | None = None
    arguments: str | None = None


class WireCall(msgspec.Struct, gc=False):
    """A fragment of a tool call."""

    index: int | None = None
    id: str | None = None
    function: WireFunction | None = None


class WireDelta(msgspec.Struct, gc=False):
    """What a chunk adds to the answer."""

    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[WireCall | None] | None = None


class WireChoice(msgspec.Struct, gc=False):
    """One alternative; only the first is ever asked for."""

    index: int | None = None
    delta: WireDelta | None = None
    finish_reason: str | None = None


class WirePromptDetails(msgspec.Struct, gc=False):
    """Parts of the prompt's tokens."""

    cached_tokens: int | None = None


class WireCompletionDetails(msgspec.Struct, gc=False):
    """Parts of the answer's tokens."""

    reasoning_tokens: int | None = None


class WireUsage(msgspec.Struct, gc=False):
    """Token counts of the request."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    prompt_tokens_details: WirePromptDetails | None = None
    completion_tokens_details: WireCompletionDetails | None = None


class WireChunk(msgspec.Struct, gc=False):
    """One event of the stream."""

    choices: list[WireChoice | None] | None = None
    usage: WireUsage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(WireChunk | None).decode
_SHOWN: Final = 200


def decode_chunk(payload: bytes) -> WireChunk | None:
    """The chunk of one event; None for an event without content.

    Bytes that are not UTF-8 become U+FFFD; texts may still hold what `TextRepair` and
    `repaired` remove. Raises `LlmError` with `MALFORMED_RESPONSE` for what is no chunk at all.
    """
    try:
        return _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _repaired(payload)


class TextRepair:
    """Repairs a text that comes in pieces.

    Servers that cut text into UTF-16 units send the two halves of a character in two pieces: the
    first half waits for the second.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def take(self, piece: str) -> str:
        """What of the text is certain after `piece`."""
        if not self._held and unsafe_text(piece) is None:
            return piece
        text, self._held = self._held + piece, ""
        if "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return repaired(joined)

    def rest(self) -> str:
        """What is left of a text that ends in half a character."""
        held, self._held = self._held, ""
        return repaired(held)


def _repaired(payload: bytes) -> WireChunk | None:
    import json  # for what msgspec refuses, which is rare

    text = payload.decode("utf-8", "replace")
    if not text.strip():
        return None
    try:
        value = _tolerable(json.loads(text, parse_constant=lambda _: None))
        try:
            return msgspec.convert(value, WireChunk | None, strict=False)
        except msgspec.ValidationError:
            # An answer is worth more than the account of its cost.
            return msgspec.convert({**value, "usage": None}, WireChunk, strict=False)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        raise LlmError(
            f"the provider sent what is no chunk of an answer ({error}): {repaired(shown)}",
            code="MALFORMED_RESPONSE",
        ) from error


def _tolerable(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """`value` with call arguments that came as an object as their JSON."""
    if isinstance(value, list):
        return [_tolerable(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = {key: _tolerable(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(fields.get("arguments"), dict):
        fields["arguments"] = msgspec.json.encode(repaired(fields["arguments"])).decode()
    return fields
