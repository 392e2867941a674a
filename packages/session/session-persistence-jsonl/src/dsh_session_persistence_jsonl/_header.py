"""The first line of an artifact."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec
from dsh_lossless_json import encode
from dsh_session import (
    SESSION_FORMAT_VERSION,
    SessionError,
    SessionHeader,
    checked_header,
)
from dsh_session_persistence import (
    SessionFormatUnsupportedError,
    SessionPersistenceCorruptionError,
)
from msgspec import UNSET, Meta, UnsetType


class _Version(msgspec.Struct, tag_field="type", tag="session"):
    version: int


class _HeaderLine(
    msgspec.Struct,
    frozen=True,
    rename="camel",
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="session",
):
    version: int
    id: str
    created_at: int
    cwd: str | UnsetType = UNSET
    parent_session: str | UnsetType = UNSET
    seed_length: int | UnsetType = UNSET
    origin: str | UnsetType = UNSET
    delegation_depth: Annotated[int, Meta(ge=0)]
    agent_preset: str | UnsetType = UNSET


_VERSION: Final = msgspec.json.Decoder(_Version)
_HEADER: Final = msgspec.json.Decoder(_HeaderLine)


def encode_header(header: SessionHeader) -> bytes:
    """The header as its line, newline included."""
    depth = header.delegation_depth
    fields = {
        field: getattr(header, field)
        for field in _HeaderLine.__struct_fields__
        if field != "delegation_depth"
    }
    return encode(_HeaderLine(delegation_depth=0 if depth is UNSET else depth, **fields)) + b"\n"


def decode_header(line: bytes, path: Path) -> SessionHeader:
    """The header of the artifact at `path`.

    Raises `SessionFormatUnsupportedError` for another version before anything else is judged,
    `SessionPersistenceCorruptionError` for a line that is no header.
    """
    try:
        version = _VERSION.decode(line).version
        if version != SESSION_FORMAT_VERSION:
            raise _unsupported(version, path)
        fields = msgspec.structs.asdict(_HEADER.decode(line))
        header = SessionHeader(**{k: v for k, v in fields.items() if v is not UNSET})
        return checked_header(header, header.id)
    except (msgspec.DecodeError, UnicodeDecodeError, SessionError) as error:
        raise SessionPersistenceCorruptionError(
            f"{path} does not start with a session header: {error}"
        ) from error


def _unsupported(version: int, path: Path) -> SessionFormatUnsupportedError:
    ours = SESSION_FORMAT_VERSION
    if version > ours:
        return SessionFormatUnsupportedError(
            f"{path} has the newer log format {version}, this version reads {ours}: upgrade dsh"
        )
    return SessionFormatUnsupportedError(
        f"{path} has the older log format {version}, this version reads {ours} "
        "and has no way to upgrade it"
    )
