"""What the loader tells about its tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsh_cordis import Emit, SyncWaterfall

if TYPE_CHECKING:
    from dsh_cordis import Context  # noqa: F401 - named by the keys below

    from ._entry import Entry  # noqa: F401 - named by the keys below
    from ._rows import Row  # noqa: F401 - named by the keys below

ENTRY_INIT: Final = Emit["Entry"]("loader/entry-init", contained=True)
"""A row got an entry; nothing of it is mounted yet."""

PARTIAL_DISPOSE: Final = Emit["Entry", "Row", bool]("loader/partial-dispose", contained=True)
"""A change takes a running row down: `(entry, old row, whether it will be mounted again)`."""

CONFIG_UPDATE: Final = Emit[()]("loader/config-update", contained=True)
"""A change of the tree succeeded and everything has come to rest."""

PATCH_CONTEXT: Final = SyncWaterfall["Context", "Entry", "Context"]("loader/patch-context")
"""Around the context that a row is mounted in, `(entry, context, next)`; `next()` applies the
row's `isolate` and `intercept`. Raising fails the row.
"""
