"""Where a session is stored: names of directories and files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from dsh_session import SessionHeader
from msgspec import UNSET

ZSTD_NAME: Final = "session.jsonl.zstd"
RAW_NAME: Final = "session.jsonl"
LOCK_NAME: Final = "session.lock"

NO_CWD: Final = "_no-cwd"
_SLUG_LIMIT: Final = 251

_SEPARATORS: Final = re.compile(r"[/\\:]+")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


def project_segment(cwd: str | None) -> str:
    """The directory of all sessions of one working directory. Different ones may share it."""
    if cwd is None:
        return NO_CWD
    slug = _escaped(_SEPARATORS.sub("-", cwd)).lstrip("-") or "root"
    return f"--{slug[:_SLUG_LIMIT]}--"


def session_segment(session_id: str) -> str:
    """The directory of one session; different ids never share it. Raises `ValueError` if empty."""
    if not session_id:
        raise ValueError("a session id may not be empty")
    if session_id in (".", ".."):
        return "~002E" * len(session_id)
    return _escaped(session_id)


def artifact_path(root: Path, header: SessionHeader, name: str) -> Path:
    """The file that a session belongs in."""
    cwd = None if header.cwd is UNSET else header.cwd
    return root / project_segment(cwd) / session_segment(header.id) / name


def _escaped(text: str) -> str:
    return _UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    # Counted in UTF-16 units, lone surrogates included: that is what other writers do.
    units = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"~{units[i] << 8 | units[i + 1]:04X}" for i in range(0, len(units), 2))
