"""Request bodies: what the conversation looks like on the wire."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec
from dsh_llm import (
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    text_of,
)
from dsh_lossless_json import repaired
from msgspec import UNSET

from ._calls import is_json_object

if TYPE_CHECKING:
    from dsh_llm import GenerateOptions, ToolSchema

_encode = msgspec.json.Encoder().encode
_NO_OUTPUT: Final = "(no output)"
_NO_RESULT: Final = "(no result of this call was recorded)"
_BAD_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME: Final = 64


class Encoded(msgspec.Struct, frozen=True):
    """One message in wire form: its own JSON, the calls it makes, the results it brings."""

    own: bytes
    is_assistant: bool = False
    calls: tuple[str, ...] = ()
    results: tuple[tuple[str, bytes], ...] = ()


class RequestEncoder:
    """Builds bodies; a message that was sent before is not encoded again.

    What is kept lives as long as its message does.
    """

    def __init__(self) -> None:
        self._thinking = _Kept(thinking=True)
        self._plain = _Kept(thinking=False)
        self._tools: tuple[tuple[ToolSchema, ...], bytes] = ((), b"")

    def encode(self, options: GenerateOptions, effort: str) -> tuple[bytes, list[Encoded]]:
        """The body of a request with reasoning `effort` (`off` for none), and its messages."""
        thinking = effort != "off"
        kept = self._thinking if thinking else self._plain
        encoded = kept.encoded(options.messages)
        config = options.config
        head: dict[str, Any] = {"model": config.model}
        tail: dict[str, Any] = {
            "stream": True,
            "stream_options": {"include_usage": True},
            "thinking": {"type": "enabled" if thinking else "disabled"},
        }
        if thinking:
            tail["reasoning_effort"] = effort
        if config.temperature is not UNSET:
            tail["temperature"] = config.temperature
        if config.max_tokens is not UNSET:
            tail["max_tokens"] = config.max_tokens
        if config.stop is not UNSET:
            tail["stop"] = config.stop
        parts = in_wire_order(encoded)
        if options.system:
            parts.insert(0, _encode({"role": "system", "content": repaired(options.system)}))
        body = b"".join(
            (
                _encode(head)[:-1],
                b',"messages":[',
                b",".join(parts),
                b"],",
                self._encoded_tools(options.tools),
                _encode(tail)[1:],
            )
        )
        return body, encoded

    def _encoded_tools(self, tools: tuple[ToolSchema, ...]) -> bytes:
        if not tools:
            return b""
        known, raw = self._tools
        if known is not tools and known != tools:
            raw = b'"tools":' + _encode([_tool(tool) for tool in tools]) + b","
            self._tools = (tools, raw)
        return raw


class _Kept:
    """Encoded messages by identity.

    Messages are equal by content, which would make hashing one cost as much as encoding it. An
    entry goes when its message does, before another object can get the same address.
    """

    __slots__ = ("_entries", "_references", "_thinking")

    def __init__(self, *, thinking: bool) -> None:
        self._thinking = thinking
        self._entries: dict[int, Encoded] = {}
        self._references: dict[int, weakref.ref[Message]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def encoded(self, messages: Iterable[Message]) -> list[Encoded]:
        """`messages` in wire form, those seen before as they were made then."""
        entries, made = self._entries, self._made
        return [entries.get(id(message)) or made(message) for message in messages]

    def _made(self, message: Message) -> Encoded:
        key = id(message)
        entries, references = self._entries, self._references

        def forget(_: object) -> None:
            entries.pop(key, None)
            references.pop(key, None)

        references[key] = weakref.ref(message, forget)
        entries[key] = encoded = encode_message(message, thinking=self._thinking)
        return encoded


def encode_message(message: Message, *, thinking: bool) -> Encoded:
    """`message` in wire form. Blocks of a kind that the wire has no place for are left out."""
    text = repaired(text_of(message.content))
    if message.role == "assistant":
        return _assistant(message, text, thinking=thinking)
    results = tuple(
        (block.tool_call_id, _tool_message(block.tool_call_id, _result_text(block)))
        for block in message.content
        if isinstance(block, ToolResultBlock)
    )
    if results and not text:
        return Encoded(b"", results=results)
    return Encoded(_encode({"role": message.role, "content": text}), results=results)


def in_wire_order(messages: Iterable[Encoded]) -> list[bytes]:
    """The wire's messages, every call followed by exactly one result before anything else.

    What stands between a call and its result waits until after it. A call whose result is not
    there gets one that says so; a result without its call is left out: servers refuse both, and
    with them the whole conversation.
    """
    out: list[bytes] = []
    waiting: list[bytes] = []
    unanswered: dict[str, None] = {}
    for message in messages:
        for call_id, raw in message.results:
            if call_id in unanswered:
                del unanswered[call_id]
                out.append(raw)
        if waiting and not unanswered:
            out += waiting
            waiting = []
        if not message.own:
            continue
        if unanswered:
            if not message.is_assistant:
                waiting.append(message.own)
                continue
            out += _settled(unanswered, waiting)
            waiting = []
        out.append(message.own)
        unanswered = dict.fromkeys(message.calls)
    return out + _settled(unanswered, waiting)


def _settled(unanswered: Iterable[str], waiting: list[bytes]) -> list[bytes]:
    return [_tool_message(call_id, _NO_RESULT) for call_id in unanswered] + waiting


def _assistant(message: Message, text: str, *, thinking: bool) -> Encoded:
    calls = [block for block in message.content if isinstance(block, ToolCallBlock)]
    wire: dict[str, Any] = {"role": "assistant", "content": text}
    if thinking:
        # Required on every message while thinking is on, empty where there was none.
        blocks = (block for block in message.content if isinstance(block, ReasoningBlock))
        wire["reasoning_content"] = repaired("".join(block.text for block in blocks))
    if calls:
        wire["tool_calls"] = [_call(call) for call in calls]
    return Encoded(_encode(wire), is_assistant=True, calls=tuple(call.id for call in calls))


def _call(call: ToolCallBlock) -> dict[str, Any]:
    # The model invents names and breaks off arguments; both come back to it as an error result,
    # but a server that is strict would refuse the conversation for them.
    name = _BAD_NAME.sub("_", call.name)[:_MAX_NAME] or "unnamed"
    function = {"name": name, "arguments": wire_arguments(call.arguments)}
    return {"id": repaired(call.id), "type": "function", "function": function}


def wire_arguments(text: str) -> str:
    """`text` as arguments that a strict server takes: `{}` unless it is a JSON object."""
    if not is_json_object(text):
        return "{}"
    if "\\u0000" not in text:
        return text
    return _encode(repaired(msgspec.json.decode(text))).decode()


def _tool_message(call_id: str, text: str) -> bytes:
    return _encode({"role": "tool", "tool_call_id": repaired(call_id), "content": text})


def _result_text(block: ToolResultBlock) -> str:
    parts = [item.text for item in block.content if isinstance(item, TextBlock)]
    return repaired("\n".join(parts)) or _NO_OUTPUT


def _tool(tool: ToolSchema) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": repaired(tool.description),
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}
