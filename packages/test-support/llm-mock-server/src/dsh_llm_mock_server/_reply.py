"""Replies: immutable descriptions of what the server sends for one request."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MethodType
from typing import TYPE_CHECKING, Concatenate, Final, Generic, Literal, ParamSpec, cast

import msgspec
from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    from collections.abc import Iterable

P = ParamSpec("P")

DEFAULT_USAGE: Final[Mapping[str, object]] = {
    "prompt_tokens": 50,
    "completion_tokens": 5,
    "total_tokens": 55,
}

_ERRORS: Final[Mapping[int, tuple[str, str, str]]] = {
    400: ("Invalid request", "invalid_request_error", "invalid_request_error"),
    401: (
        "Authentication fails, the api key is invalid",
        "authentication_error",
        "invalid_api_key",
    ),
    402: ("Insufficient Balance", "unknown_error", "invalid_request_error"),
    422: ("Invalid parameters", "invalid_request_error", "invalid_request_error"),
    429: ("Rate limit reached", "rate_limit_error", "rate_limit_exceeded"),
    500: ("Internal server error", "server_error", "internal_error"),
    503: ("Service is too busy, try again later", "server_error", "service_unavailable"),
}


@dataclass(frozen=True, slots=True)
class Deltas:
    """Encoded `delta` objects, one frame each."""

    items: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call; its id is made when the reply is sent unless it was given."""

    index: int | None
    id: str | UnsetType | None
    name: str | None
    arguments: str | None
    chunk_size: int | None


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Bytes of the stream, sent as they are."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Finish:
    """The last frames; `reason` None sends none, `usage` None sends none."""

    reason: str | None
    usage: bytes | None


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers of a streamed reply, sent at once."""

    code: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Whole:
    """A complete response with a known length."""

    code: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Silence; None lasts until the client leaves or the server closes."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class End:
    """How the reply breaks off."""

    kind: Literal["cut", "reset", "eof"]


Step = Deltas | Call | Verbatim | Finish | Head | Whole | Wait | End


class _Chain(Generic[P]):
    """A method of Reply that also works on the class, where it starts from an empty reply."""

    def __init__(self, function: Callable[Concatenate[Reply, P], Reply]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Reply | None, owner: type[Reply]) -> Callable[P, Reply]:
        return MethodType(self._function, owner() if instance is None else instance)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server sends for one request, built step by step.

    Every method returns a new Reply and works on the class as well: `Reply.text("hi")` is
    `Reply().text("hi")`. Steps are sent in order. Unless the reply ends itself (`finish`, `cut`,
    `reset`, `eof`, a whole response), it is finished with `tool_calls` if it made calls and `stop`
    otherwise, default usage, and `[DONE]`.
    Raises ValueError for a step after one that ends the reply.
    """

    steps: tuple[Step, ...] = ()
    pace_ms: float | None = field(default=None, kw_only=True)
    split_bytes: int | None = field(default=None, kw_only=True)

    @_Chain
    def text(self, text: str, *, chunk_size: int | None = None) -> Reply:
        """Answer text, in one delta or in deltas of `chunk_size` code points."""
        return self._plus(Deltas(_string_deltas("content", text, chunk_size)))

    @_Chain
    def think(self, text: str, *, chunk_size: int | None = None) -> Reply:
        """Reasoning text, in one delta or in deltas of `chunk_size` code points."""
        return self._plus(Deltas(_string_deltas("reasoning_content", text, chunk_size)))

    @_Chain
    def call(
        self,
        name: str | None,
        arguments: Mapping[str, object] | str | None,
        *,
        id: str | UnsetType | None = UNSET,  # noqa: A002 - the name of the wire field
        index: int | UnsetType | None = UNSET,
        chunk_size: int | None = None,
    ) -> Reply:
        """One tool call: `arguments` as an object, or as the raw string to send.

        None leaves a field out. Unless given, `id` is unique for the server and `index` the next
        free one. With `chunk_size` a first delta names the call and the arguments follow in deltas
        of that many code points; without, everything is in one delta.
        """
        raw = json_bytes(arguments).decode() if isinstance(arguments, Mapping) else arguments
        position = self._next_index() if isinstance(index, UnsetType) else index
        return self._plus(Call(position, id, name, raw, _checked_size(chunk_size)))

    @_Chain
    def raw(self, data: str) -> Reply:
        """One frame with this literal text after `data: `."""
        encoded = data.encode("utf-8", "surrogatepass")
        return self._plus(Verbatim(b"data: " + encoded + b"\n\n"))

    @_Chain
    def comment(self, text: str = "keep-alive") -> Reply:
        """One comment line, as servers send to keep a connection open."""
        return self._plus(Verbatim(b": " + text.encode() + b"\n\n"))

    @_Chain
    def verbatim(self, data: bytes) -> Reply:
        """Bytes of the stream as they are: no framing, no encoding."""
        return self._plus(Verbatim(data))

    @_Chain
    def finish(
        self,
        reason: str | None,
        *,
        usage: Mapping[str, object] | UnsetType | None = UNSET,
    ) -> Reply:
        """The finish frame; `[DONE]` still comes at the end of the reply.

        Reason None sends no finish reason, and then usage only if it is given, as a frame without
        choices. Usage None leaves it out; unset it is DEFAULT_USAGE.
        """
        if isinstance(usage, UnsetType):
            usage = None if reason is None else DEFAULT_USAGE
        return self._plus(Finish(reason, None if usage is None else json_bytes(usage)))

    @_Chain
    def status(
        self,
        code: int,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, object] | str | bytes | None = None,
    ) -> Reply:
        """A whole response: an object as JSON, a string or bytes as they are.

        Without a body a code from 400 on gets the provider's usual error object, and any other
        sends status and headers at once and lets a stream follow.
        """
        given = {name.lower(): value for name, value in (headers or {}).items()}
        if body is None and code < 400:
            return self._plus(Head(code, given))
        if body is None:
            body = error_object(code)
        if isinstance(body, Mapping):
            given.setdefault("content-type", "application/json")
            return self._plus(Whole(code, given, json_bytes(body)))
        given.setdefault("content-type", "text/plain; charset=utf-8")
        return self._plus(Whole(code, given, body.encode() if isinstance(body, str) else body))

    @_Chain
    def body(self, data: str | bytes, content_type: str = "text/event-stream") -> Reply:
        """A whole 200 response with this body, which may be empty."""
        return self.status(200, {"content-type": content_type}, data)

    @_Chain
    def pause(self, ms: float) -> Reply:
        """Sends what came before, then waits `ms` milliseconds."""
        return self._plus(Wait(ms / 1000))

    @_Chain
    def stall(self, seconds: float | None = None) -> Reply:
        """Sends what came before, then stays silent for `seconds`; None is until someone leaves.

        As the first step it holds back the response head too; `status(200)` sends that.
        """
        return self._plus(Wait(seconds))

    @_Chain
    def cut(self) -> Reply:
        """Closes the connection in mid-body, or before the head if nothing was sent."""
        return self._plus(End("cut"))

    @_Chain
    def reset(self) -> Reply:
        """Resets the connection (TCP RST); bytes that are under way may be lost."""
        return self._plus(End("reset"))

    @_Chain
    def eof(self) -> Reply:
        """Ends the body cleanly, without a finish frame and without `[DONE]`."""
        return self._plus(End("eof"))

    @_Chain
    def pace(self, ms: float) -> Reply:
        """Sends every frame of the whole reply on its own, `ms` milliseconds after the last."""
        return replace(self, pace_ms=ms)

    @_Chain
    def split(self, size_bytes: int) -> Reply:
        """Sends the stream in pieces of `size_bytes`, across frames and characters."""
        return replace(self, split_bytes=_checked_size(size_bytes))

    def _plus(self, step: Step) -> Reply:
        last = self.steps[-1] if self.steps else None
        ended = isinstance(last, End | Whole)
        if ended:
            raise ValueError(f"{step!r} cannot follow {last!r}: that ends the reply")
        if isinstance(step, Head | Whole) and not all(isinstance(s, Wait) for s in self.steps):
            raise ValueError(f"{step!r} must come first: the head of a response is sent once")
        return replace(self, steps=(*self.steps, step))

    def _next_index(self) -> int:
        taken = [s.index for s in self.steps if isinstance(s, Call) and s.index is not None]
        return max(taken, default=-1) + 1


def error_object(
    code: int, message: str | None = None, *, error_code: str | None = None
) -> dict[str, object]:
    """The provider's error object for an HTTP status."""
    fallback = 500 if code >= 500 else 400
    text, kind, name = _ERRORS.get(code, _ERRORS[fallback])
    error = {"message": message or text, "type": kind, "param": None, "code": error_code or name}
    return {"error": error}


def json_bytes(value: object) -> bytes:
    """JSON in UTF-8; a lone surrogate, which UTF-8 cannot carry, goes out as an escape."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), default=_plain).encode("ascii")


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    raise TypeError(f"{value!r} is not JSON")


def pieces(text: str, chunk_size: int | None) -> Iterable[str]:
    """The text in parts of `chunk_size` code points; None is the whole text."""
    if chunk_size is None or len(text) <= chunk_size:
        return (text,)
    return (text[i : i + chunk_size] for i in range(0, len(text), chunk_size))


def _string_deltas(name: str, text: str, chunk_size: int | None) -> tuple[bytes, ...]:
    parts = pieces(text, _checked_size(chunk_size))
    return tuple(json_bytes({name: part}) for part in parts)


def _checked_size(size: int | None) -> int | None:
    if size is not None and size < 1:
        raise ValueError(f"size {size!r} must be at least 1")
    return size
