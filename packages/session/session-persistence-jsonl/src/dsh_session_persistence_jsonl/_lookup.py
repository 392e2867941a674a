"""Finds artifacts below a root."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from dsh_cordis import CordisError
from dsh_session import SessionHeader
from dsh_session_persistence import SessionPersistenceError

from ._artifact import read_header
from ._layout import RAW_NAME, ZSTD_NAME, artifact_path, session_segment

_log = logging.getLogger("dsh.session-persistence-jsonl")


def find_artifact(root: Path, session_id: str, name: str) -> Path | None:
    """The file of a session, whatever its working directory is; None if there is none.

    Raises `SESSION_AMBIGUOUS` for two of them, `LAYOUT_MIXED` for one in another encoding than
    `name`, `OSError`.
    """
    segment = session_segment(session_id)
    found: list[Path] = []
    for project in _directories(root):
        refuse_other_layout(project, segment, name)
        candidate = project / segment / name
        if candidate.exists():
            found.append(candidate)
    if len(found) > 1:
        raise SessionPersistenceError(
            f"session {session_id!r} is stored twice: {found[0]} and {found[1]}; remove one",
            code="SESSION_AMBIGUOUS",
        )
    return found[0] if found else None


def refuse_other_layout(project: Path, segment: str, name: str) -> None:
    """Raises `LAYOUT_MIXED` if the session is there in a form that this root does not use."""
    other = RAW_NAME if name == ZSTD_NAME else ZSTD_NAME
    directory = project / segment
    flat = (project / f"{segment}.jsonl", project / f"{segment}.jsonl.zstd")
    for stray in (directory / other, *flat):
        if stray.exists():
            raise SessionPersistenceError(
                f"{stray} is not in the form of this root, which stores {name} in a directory for "
                "each session: move it away, or change the compression setting",
                code="LAYOUT_MIXED",
            )


def check_identity(root: Path, path: Path, header: SessionHeader, session_id: str) -> None:
    """Raises `SESSION_MISPLACED` unless `header` belongs to `session_id` and in this place."""
    expected = artifact_path(root, header, path.name)
    if header.id == session_id and (expected == path or _same_file(expected, path)):
        return
    raise SessionPersistenceError(
        f"{path} holds session {header.id!r}, which belongs in {expected}: move it there",
        code="SESSION_MISPLACED",
    )


def list_headers(root: Path, name: str) -> Iterator[SessionHeader]:
    """The headers of all sessions. What cannot be read is logged and left out."""
    for found in survey(root, name):
        if isinstance(found, str):
            _log.warning("left out of the list: %s", found)
        else:
            yield found


def survey(root: Path, name: str) -> Iterator[SessionHeader | str]:
    """The header of every session, or why one cannot be read. Raises OSError for the root alone."""
    seen: set[str] = set()
    for project in _directories(root):
        try:
            directories = _directories(project)
        except OSError as error:
            yield str(error)
            continue
        for directory in directories:
            path = directory / name
            try:
                refuse_other_layout(project, directory.name, name)
                header = read_header(path) if path.exists() else None
            except (CordisError, OSError) as error:
                yield str(error)
                continue
            if header is None:
                continue
            if header.id in seen:
                yield f"session {header.id!r} is stored twice, once in {directory}"
                continue
            seen.add(header.id)
            yield header


def _directories(path: Path) -> list[Path]:
    try:
        with os.scandir(path) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir())
    except FileNotFoundError:
        return []


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
