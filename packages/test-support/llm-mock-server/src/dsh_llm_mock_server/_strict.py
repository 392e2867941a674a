"""What a strict model server refuses: rules over one decoded request body."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NoReturn, cast

import msgspec

_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNSAFE: Final = re.compile("[\0\ud800-\udfff]")
_UNSAFE_ESCAPE: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_SCHEMA_MAPS: Final = (
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
)
_SCHEMA_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS: Final = ("items", "additionalProperties", "not", "if", "then", "else", "contains")

Object = dict[str, object]


def decode_strict(raw: bytes | str) -> object:
    """The value of a JSON text. Raises ValueError saying why it is none.

    Refused: bytes that are not UTF-8, NaN and infinities, and strings or keys with U+0000 or a
    lone surrogate, escaped or not.
    """
    try:
        value: object = msgspec.json.decode(raw)
    except msgspec.ValidationError:
        # A number beyond a float is still JSON; only the standard decoder reads it.
        value = json.loads(raw, parse_constant=_no_constant)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ValueError(f"not valid JSON: {error}") from error
    encoded = raw.encode() if isinstance(raw, str) else raw
    if not _UNSAFE_ESCAPE.search(encoded):
        return value  # unescaped, neither is valid JSON or UTF-8
    for text in _strings(value):
        if found := _UNSAFE.search(text):
            raise ValueError(f"U+{ord(found[0]):04X} is not allowed in a string")
    return value


def decode_lenient(raw: bytes) -> object:
    """The value of a JSON text as a forgiving server reads it. Raises ValueError if it cannot."""
    try:
        return json.loads(raw)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def first_problem(body: Object) -> str | None:
    """The first rule that a request breaks, with the place; None if it is acceptable."""
    return next(_problems(body), None)


def _problems(body: Object) -> Iterator[str]:
    if not _text(body.get("model")):
        yield "model: must be a non-empty string"
    if body.get("stream") is not True:
        yield "stream: must be true, this server only streams"
    messages = _array(body.get("messages"))
    if not messages:
        yield "messages: must be a non-empty array"
        return
    thinking = _object(body.get("thinking")) or {}
    yield from _messages(messages, thinking=thinking.get("type") == "enabled")
    if "tools" in body:
        yield from _tools(body["tools"])


def _messages(messages: list[object], *, thinking: bool) -> Iterator[str]:
    owed: dict[str, str] = {}
    answered: set[str] = set()
    for position, message in enumerate(messages):
        at = f"messages[{position}]"
        if (entry := _object(message)) is None:
            yield f"{at}: must be an object"
            return
        role = entry.get("role")
        if role == "tool":
            yield from _result(entry, at, owed, answered)
            continue
        yield from _still_owed(owed, at)
        owed, answered = {}, set()
        if role not in _ROLES:
            yield f"{at}.role: {role!r} is not one of {', '.join(sorted(_ROLES))}"
        elif role == "assistant":
            yield from _assistant(entry, at, thinking=thinking)
            owed = _calls_of(entry, at)
        else:
            yield from _content(entry, at)
    yield from _still_owed(owed, "end of messages")


def _result(entry: Object, at: str, owed: dict[str, str], answered: set[str]) -> Iterator[str]:
    yield from _content(entry, at)
    call_id = entry.get("tool_call_id")
    if not isinstance(call_id, str) or not call_id:
        yield f"{at}.tool_call_id: must be a non-empty string"
    elif call_id in answered:
        yield f"{at}.tool_call_id: {call_id!r} has a result already"
    elif call_id not in owed:
        yield f"{at}.tool_call_id: {call_id!r} is no call of the assistant message right before"
    else:
        del owed[call_id]
        answered.add(call_id)


def _still_owed(owed: dict[str, str], at: str) -> Iterator[str]:
    for call_id, place in owed.items():
        yield f"{place}: call {call_id!r} has no result before {at}"


def _assistant(entry: Object, at: str, *, thinking: bool) -> Iterator[str]:
    content = entry.get("content")
    if content is None and "tool_calls" not in entry:
        yield f"{at}.content: must be a string unless there are tool_calls"
    elif content is not None:
        yield from _content(entry, at)
    reasoning = entry.get("reasoning_content")
    if thinking and not isinstance(reasoning, str):
        yield f"{at}.reasoning_content: must be sent back while thinking is on"
    elif reasoning is not None and not isinstance(reasoning, str):
        yield f"{at}.reasoning_content: must be a string"
    if "tool_calls" not in entry:
        return
    calls = _array(entry["tool_calls"])
    if not calls:
        yield f"{at}.tool_calls: must be a non-empty array"
        return
    seen: set[str] = set()
    for index, call in enumerate(calls):
        yield from _call(call, f"{at}.tool_calls[{index}]", seen)


def _call(call: object, at: str, seen: set[str]) -> Iterator[str]:
    if (entry := _object(call)) is None:
        yield f"{at}: must be an object"
        return
    call_id = entry.get("id")
    if not isinstance(call_id, str) or not call_id:
        yield f"{at}.id: must be a non-empty string"
    elif call_id in seen:
        yield f"{at}.id: {call_id!r} is used twice in this message"
    else:
        seen.add(call_id)
    if entry.get("type") != "function":
        yield f'{at}.type: must be "function"'
    if (function := _object(entry.get("function"))) is None:
        yield f"{at}.function: must be an object"
        return
    yield from _name(function.get("name"), f"{at}.function.name")
    yield from _arguments(function.get("arguments"), f"{at}.function.arguments")


def _arguments(arguments: object, at: str) -> Iterator[str]:
    if not isinstance(arguments, str):
        yield f"{at}: must be a string that holds a JSON object"
        return
    try:
        value = decode_strict(arguments)
    except ValueError as error:
        yield f"{at}: {error}"
        return
    if not isinstance(value, dict):
        yield f"{at}: must hold a JSON object"


def _calls_of(entry: Object, at: str) -> dict[str, str]:
    # Reached only when the message broke no rule, so its shape is known.
    calls = cast("list[Object]", entry.get("tool_calls", []))
    return {cast("str", call["id"]): f"{at}.tool_calls[{i}]" for i, call in enumerate(calls)}


def _content(entry: Object, at: str) -> Iterator[str]:
    content = entry.get("content")
    if isinstance(content, str):
        return
    if (parts := _array(content)) is None:
        yield f"{at}.content: must be a string or an array of parts"
        return
    for index, part in enumerate(parts):
        if not isinstance((_object(part) or {}).get("type"), str):
            yield f"{at}.content[{index}]: must be an object with a type"


def _tools(tools: object) -> Iterator[str]:
    listed = _array(tools)
    if not listed:
        yield "tools: must be a non-empty array"
        return
    seen: set[object] = set()
    for index, tool in enumerate(listed):
        at = f"tools[{index}]"
        entry = _object(tool) or {}
        if entry.get("type") != "function":
            yield f'{at}.type: must be "function"'
            return
        if (function := _object(entry.get("function"))) is None:
            yield f"{at}.function: must be an object"
            return
        name = function.get("name")
        yield from _name(name, f"{at}.function.name")
        if name in seen:
            yield f"{at}.function.name: {name!r} is used twice"
        seen.add(name)
        if not isinstance(function.get("description", ""), str):
            yield f"{at}.function.description: must be a string"
        yield from _parameters(function.get("parameters"), f"{at}.function.parameters")


def _parameters(schema: object, at: str) -> Iterator[str]:
    if (_object(schema) or {}).get("type") != "object":
        yield f'{at}: must be a schema of "type": "object"'
        return
    yield from _schema(schema, at)


def _schema(schema: object, at: str) -> Iterator[str]:
    if isinstance(schema, bool):
        return
    if (entry := _object(schema)) is None:
        yield f"{at}: a schema must be an object or a boolean"
        return
    for key in _SCHEMA_MAPS:
        if (children := _object(entry.get(key, {}))) is None:
            yield f"{at}.{key}: must be an object of schemas"
            return
        for name, child in children.items():
            yield from _schema(child, f"{at}.{key}.{name}")
    for key in _SCHEMA_LISTS:
        if (listed := _array(entry.get(key, []))) is None:
            yield f"{at}.{key}: must be an array of schemas"
            return
        for index, child in enumerate(listed):
            yield from _schema(child, f"{at}.{key}[{index}]")
    for key in _SCHEMAS:
        if key in entry:
            yield from _schema(entry[key], f"{at}.{key}")
    required = _array(entry.get("required", []))
    if required is None or not all(isinstance(name, str) for name in required):
        yield f"{at}.required: must be an array of strings"


def _name(name: object, at: str) -> Iterator[str]:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"{at}: {name!r} must match ^[A-Za-z0-9_-]{{1,64}}$"


def _text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _object(value: object) -> Object | None:
    return cast("Object", value) if isinstance(value, dict) else None


def _array(value: object) -> list[object] | None:
    return cast("list[object]", value) if isinstance(value, list) else None


def _strings(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            waiting.extend(cast("list[object]", item))
        elif isinstance(item, dict):
            waiting.extend(cast("Object", item).keys())
            waiting.extend(cast("Object", item).values())


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
