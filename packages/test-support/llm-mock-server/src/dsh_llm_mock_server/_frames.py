"""From a reply to the frames of its stream: a pure walk, without I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import UnsetType

from ._reply import (
    DEFAULT_USAGE,
    Call,
    Deltas,
    End,
    Finish,
    Head,
    Reply,
    Verbatim,
    Wait,
    Whole,
    json_bytes,
    pieces,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Action = bytes | Head | Whole | Wait | End

DONE: Final = b"data: [DONE]\n\n"


class FrameEncoder:
    """Renders the steps of replies to one request."""

    def __init__(self, number: int, *, model: str, created: int) -> None:
        envelope = {
            "id": f"mock-{number}",
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        self._number = number
        self._calls = 0
        self._opened = False
        self._start = b"data: " + json_bytes(envelope)[:-1] + b',"choices":['
        self._before = self._start + b'{"index":0,"delta":'

    def actions(self, reply: Reply) -> Iterator[Action]:
        """What to do, in order: bytes are one piece of the stream each."""
        pace = None if reply.pace_ms is None else Wait(reply.pace_ms / 1000)
        first = True
        for action in self._actions(reply):
            if pace is not None and isinstance(action, bytes):
                if not first:
                    yield pace
                first = False
            yield action

    def _actions(self, reply: Reply) -> Iterator[Action]:
        finished = False
        for step in reply.steps:
            match step:
                case Deltas(items):
                    for delta in items:
                        yield self._delta(delta)
                case Call():
                    for delta in self._call(step):
                        yield self._delta(delta)
                case Verbatim(data):
                    yield data
                case Finish():
                    finished = True
                    yield from self._finish(step)
                case Head() | Wait():
                    yield step
                case Whole() | End():
                    yield step
                    return
        if not finished:
            reason = "tool_calls" if self._calls else "stop"
            yield from self._finish(Finish(reason, json_bytes(DEFAULT_USAGE)))
        yield DONE

    def _delta(self, delta: bytes) -> bytes:
        if not self._opened:
            # As the provider does, the first delta of a message names its role.
            self._opened = True
            content = b"" if delta.startswith(b'{"content"') else b'"content":null,'
            delta = b'{"role":"assistant",' + content + delta[1:]
        return self._before + delta + b',"finish_reason":null}],"usage":null}\n\n'

    def _call(self, call: Call) -> Iterator[bytes]:
        head: dict[str, object] = {} if call.index is None else {"index": call.index}
        where = dict(head)
        if isinstance(call.id, UnsetType):
            head["id"] = f"call_{self._number}_{self._calls}"
        elif call.id is not None:
            head["id"] = call.id
        self._calls += 1
        head["type"] = "function"
        function: dict[str, object] = {} if call.name is None else {"name": call.name}
        head["function"] = function
        if call.chunk_size is None or call.arguments is None:
            if call.arguments is not None:
                function["arguments"] = call.arguments
            yield json_bytes({"tool_calls": [head]})
            return
        function["arguments"] = ""
        yield json_bytes({"tool_calls": [head]})
        for part in pieces(call.arguments, call.chunk_size):
            yield json_bytes({"tool_calls": [{**where, "function": {"arguments": part}}]})

    def _finish(self, step: Finish) -> Iterator[bytes]:
        usage = b"null" if step.usage is None else step.usage
        if step.reason is not None:
            reason = json_bytes(step.reason)
            choice = b'{"content":""},"finish_reason":' + reason + b'}],"usage":'
            yield self._before + choice + usage + b"}\n\n"
        elif step.usage is not None:
            yield self._start + b'],"usage":' + usage + b"}\n\n"
