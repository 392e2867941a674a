"""The service: what is watched, and what a change leads to."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from dsh_cordis import Service
from dsh_cordis_loader import CONFIG_UPDATE, LOADER, LoaderError
from dsh_home_paths import canonical_watch_path

from ._errors import HmrError
from ._files import AtFirst, WatchedFile
from ._keys import HMR, HMR_CHANGE, HmrConfig
from ._sources import SourceReloads
from ._state import Ignored, directories_for
from ._watch import DirectoryWatch

if TYPE_CHECKING:
    from dsh_cordis import Context, Disposer

POLL_S: Final = 0.5
"""How often files are looked at where the system tells of no changes."""


class Hmr(Service):
    """Reloads plugins and refreshes configuration files as they are edited.

    Nothing is imported or watched before the tree has come to rest for the first time.
    """

    provides: ClassVar = HMR
    inject: ClassVar = (LOADER,)
    Config: ClassVar = HmrConfig

    def __init__(self, ctx: Context, config: HmrConfig) -> None:
        super().__init__(ctx, config)
        self._loader = ctx[LOADER]
        self._files: dict[Path, WatchedFile] = {}
        self._includes: dict[Path, WatchedFile] = {}
        self._roots = tuple(Path(root).absolute() for root in config.root)
        self._ignored = Ignored(config.ignored)
        self._watch = DirectoryWatch(
            self._wake, roots=self._roots, ignored=self._ignored, debounce_ms=config.debounce_ms
        )
        self._sources = (
            SourceReloads(ctx, self._wake, began_ns=time.time_ns()) if config.sources else None
        )
        self._woken = asyncio.Event()
        self._stopping = False
        self._waiting: list[asyncio.Future[None]] = []

    def watch_file(
        self,
        file: str | Path,
        refresh: Callable[[], Awaitable[object]],
        *,
        at_first: AtFirst = "if-present",
    ) -> Disposer:
        """Await `refresh()` whenever the file appears, changes or goes, and once `at_first`.

        Nothing of the path needs to exist. Runs follow each other; changes during a run lead to one
        more. A failure is logged and told as `hmr/config-update-failed`. Ends with the caller;
        awaiting the result waits for the active run. Raises HmrError (`ALREADY_WATCHED`,
        `INVALID_PATH`).
        """
        path = Path(file).absolute()
        try:
            canonical = canonical_watch_path(path)
        except OSError as error:
            raise HmrError(
                f"{path} cannot be watched: {error.strerror}", code="INVALID_PATH"
            ) from error
        if canonical in self._files:
            raise HmrError(f"config path already registered: {path}", code="ALREADY_WATCHED")
        watched = WatchedFile(path, refresh, owner=self.ctx, own=self.own, at_first=at_first)

        def end() -> Awaitable[None]:
            # Plain: whoever asks is known only here, and must not wait for itself.
            if self._files.get(canonical) is watched:
                del self._files[canonical]
                self._wake()
            return watched.dispose()

        effect = self.ctx.effect(lambda: end, "hmr.watch_file()")
        self._files[canonical] = watched
        self._wake()
        return effect

    async def ready(self) -> None:
        """Wait until everything that is registered and mounted now is being watched."""
        if self._stopping:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._wake()
        await asyncio.wait({done})

    def start(self) -> Generator[Disposer]:
        """Begin to watch once the tree is at rest."""
        self.own.on(CONFIG_UPDATE, self._tree_changed)
        if self._sources is not None:
            yield self._sources.start()
        self.own.spawn(self._run, stop=self._stop, name="file watch")

    # -- the watching task ------------------------------------------------------------------------

    def _wake(self) -> None:
        self._woken.set()

    def _stop(self) -> None:
        self._stopping = True
        self._wake()

    def _tree_changed(self) -> None:
        if self._sources is not None:
            self._sources.mark_stale()
        self._wake()

    async def _run(self) -> None:
        try:
            await self._at_rest()
            while not self._stopping:
                await self._pass()
                await self._next()
        finally:
            self._stopping = True
            await self._watch.close()
            self._release(self._waiting)

    async def _at_rest(self) -> None:
        # A boot has better things to do than importing what watches, or looking at sources.
        with suppress(LoaderError):  # rows that failed are watched too: an edit may help them
            await self._loader.settled()

    async def _next(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S if self._watch.polls else None):
                await self._woken.wait()
        self._woken.clear()

    async def _pass(self) -> None:
        """Catch up with everything that was registered, mounted or changed until now."""
        waiting, self._waiting = self._waiting, []
        events = await self._watch.settle()
        if self._sources is not None:
            await self._sources.learn()
        self._follow_includes()
        files = [*self._files.values(), *self._includes.values()]
        await self._watch.arm(self._directories(files))
        for file in files:
            file.check(events)
        if self._sources is not None:
            self._sources.check(events)
        self._tell_others(events, files)
        self._release(waiting)

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
                owner=self.own,
                own=self.own,
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
                self.own.emit(HMR_CHANGE, Path(path))

    def _release(self, waiting: list[asyncio.Future[None]]) -> None:
        for done in waiting:
            if not done.done():
                done.set_result(None)
        waiting.clear()
