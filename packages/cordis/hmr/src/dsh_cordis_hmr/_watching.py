"""Catching up with what was registered, mounted and changed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dsh_cordis_loader import CONFIG_UPDATE, LOADER

from ._files import WatchedFile
from ._keys import HMR_CHANGE, HmrConfig
from ._sources import SourceReloads
from ._state import Ignored, directories_for
from ._watch import DirectoryWatch

if TYPE_CHECKING:
    from dsh_cordis import Context

POLL_S: Final = 0.5
"""How often files are looked at where the system tells of no changes."""

_log = logging.getLogger("dsh.cordis.hmr")


class Watching:
    """Everything that is watched, by one task that calls `catch_up` when there is news."""

    def __init__(
        self, own: Context, config: HmrConfig, wake: Callable[[], None], *, began_ns: int
    ) -> None:
        self._own = own
        self._loader = own[LOADER]
        self._wake = wake
        self._includes: dict[Path, WatchedFile] = {}
        self._watch = DirectoryWatch(
            wake,
            roots=tuple(Path(root).absolute() for root in config.root),
            ignored=Ignored(config.ignored),
            debounce_ms=config.debounce_ms,
        )
        self._sources: SourceReloads | None = None
        self._stop_finding: Callable[[], None] | None = None
        if config.sources:
            self._sources = SourceReloads(own, wake, began_ns=began_ns)
            self._stop_finding = self._sources.start()
        own.on(CONFIG_UPDATE, self._tree_changed)

    @property
    def patience_s(self) -> float | None:
        """How long to wait for news at most; None where they come by themselves."""
        return POLL_S if self._watch.polls else None

    async def catch_up(self, registered: Iterable[WatchedFile]) -> None:
        """Watch what is there now and do what its changes ask for."""
        try:
            await self._catch_up(registered)
        except Exception as error:  # noqa: BLE001 - containment: the next change is seen all the same
            _log.error("a look at changed files failed: %r", error, exc_info=error)

    async def close(self) -> None:
        """End thread, descriptors and the hold on imports."""
        if self._stop_finding is not None:
            self._stop_finding()
        await self._watch.close()

    def _tree_changed(self) -> None:
        if self._sources is not None:
            self._sources.mark_stale()
        self._wake()

    async def _catch_up(self, registered: Iterable[WatchedFile]) -> None:
        events = await self._watch.settle()
        if self._sources is not None:
            await self._sources.learn()
        self._follow_includes()
        files = [*registered, *self._includes.values()]
        await self._watch.arm(self._directories(files))
        for file in files:
            file.check(events)
        if self._sources is not None:
            self._sources.check(events)
        self._tell_others(events, files)

    def _directories(self, files: Iterable[WatchedFile]) -> set[str]:
        paths = {str(file.path) for file in files}
        if self._sources is not None:
            paths |= self._sources.files()
        return {directory for path in paths for directory in directories_for(path)}

    def _follow_includes(self) -> None:
        """Watch the files that rows come from, as long as they are mounted."""
        mounted = self._loader.watched_files()
        for path in self._includes.keys() - mounted.keys():
            self._includes.pop(path).close()
        for path in mounted.keys() - self._includes.keys():
            self._includes[path] = WatchedFile(
                path,
                partial(self._refresh_include, path),
                owner=self._own,
                own=self._own,
                waits=False,
            )

    async def _refresh_include(self, path: Path) -> None:
        # Looked up anew: the include may have been mounted again since.
        refresh = self._loader.watched_files().get(path)
        if refresh is not None:
            await refresh()

    def _tell_others(self, events: frozenset[str], files: Iterable[WatchedFile]) -> None:
        known = {name for file in files for name in file.names}
        for path in sorted(events - known):
            below = self._watch.is_watched_root(path)
            beside = self._sources is not None and self._sources.lies_beside(path)
            if (below or beside) and not os.path.isdir(path):
                self._own.emit(HMR_CHANGE, Path(path))
