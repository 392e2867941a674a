"""The header of a session: what is known about it before its first event."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from dsh_llm import SessionId
from dsh_lossless_json import unsafe_text
from msgspec import UNSET, Meta, UnsetType

from ._errors import SessionError

SESSION_FORMAT_VERSION: Final = 0
"""Version of the log format that is read and written here."""

MAX_SAFE_INTEGER: Final = 2**53 - 1

Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)]


class SessionHeader(
    msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True
):
    """Immutable facts about a session, kept beside its log."""

    version: int = SESSION_FORMAT_VERSION
    id: SessionId
    created_at: Count
    """Epoch milliseconds."""
    cwd: str | UnsetType = UNSET
    """Absolute path of the directory that the session works in."""
    parent_session: str | UnsetType = UNSET
    """Id of the session that this one was derived from."""
    seed_length: Count | UnsetType = UNSET
    """How many events were inherited from it."""
    origin: Literal["subagent"] | UnsetType = UNSET
    """A hint for lists; proves nothing."""
    delegation_depth: Count | UnsetType = UNSET
    """Agents above this one; absent means 0."""
    agent_preset: str | UnsetType = UNSET
    """The composition to rebuild on resume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMeta:
    """What the creator of a session knows about it; None leaves a header field absent."""

    cwd: str | None = None
    parent_session: str | None = None
    created_at: int | None = None
    """Epoch milliseconds; None is now."""
    seed_length: int | None = None
    origin: Literal["subagent"] | None = None
    delegation_depth: int | None = None
    agent_preset: str | None = None


def now_ms() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000


def make_header(session_id: SessionId, meta: SessionMeta | None = None) -> SessionHeader:
    """The header of a session that starts now. Raises `SessionError` naming a bad field."""
    given: dict[str, Any] = {} if meta is None else asdict(meta)
    known = {name: value for name, value in given.items() if value is not None}
    known.setdefault("created_at", now_ms())
    return checked_header(SessionHeader(id=session_id, **known), session_id)


def checked_header(header: SessionHeader, session_id: SessionId) -> SessionHeader:
    """`header`, if it is one of `session_id` in this format. Raises `SessionError` otherwise."""
    try:
        # The constructor of a Struct checks nothing; converting does.
        header = msgspec.convert(msgspec.to_builtins(header), SessionHeader)
    except (msgspec.ValidationError, TypeError) as error:
        raise _invalid(session_id, str(error)) from error
    if header.version != SESSION_FORMAT_VERSION:
        raise _invalid(session_id, f"version {header.version} is not {SESSION_FORMAT_VERSION}")
    if header.id != session_id:
        raise _invalid(session_id, f"it belongs to {header.id!r}")
    if header.cwd is not UNSET and not is_absolute(header.cwd):
        raise _invalid(session_id, f"cwd {header.cwd!r} is not an absolute path")
    for name in header.__struct_fields__:
        value = getattr(header, name)
        if isinstance(value, str) and unsafe_text(value) is not None:
            # Such as a directory's name in another encoding.
            raise _invalid(session_id, f"{name} {value!r} is not UTF-8 text without NUL")
    return header


def is_absolute(path: str) -> bool:
    """Whether `path` is absolute on the system that wrote it, which need not be this one."""
    return PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()


def _invalid(session_id: str, reason: str) -> SessionError:
    return SessionError(f"header of session {session_id!r}: {reason}", code="INVALID_HEADER")
