"""Where policies meet file operations.

`owner` is whoever's knowledge of files counts: the session of the agent that acts, or None.
"""

from __future__ import annotations

import msgspec
from dsh_cordis import Emit, Waterfall

from ._records import Expected, FileTarget, FileVersion, ReplaceIfVersion


class FileIntent(msgspec.Struct, frozen=True):
    """`owner` is about to change `target`."""

    target: FileTarget
    owner: object | None


class FileObserved(msgspec.Struct, frozen=True):
    """`owner` saw `target`: at `version`, or absent if that is None."""

    target: FileTarget
    owner: object | None
    version: FileVersion | None


FS_WRITE_INTENT = Waterfall[Expected | None, FileIntent]("fs/write-intent")
"""Before a write: what it must find, None for anything. The first listener that decides wins."""

FS_EDIT_INTENT = Waterfall[ReplaceIfVersion | None, FileIntent]("fs/edit-intent")
"""Before an edit: the version that it must find, None for any. The first that decides wins."""

FS_OBSERVED = Emit[FileObserved]("fs/observed")
"""After a read or a change; version None is absent. A listener that raises fails the operation."""
