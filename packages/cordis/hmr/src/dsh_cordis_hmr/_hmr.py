"""The service: what is registered, and the task that watches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from dsh_cordis import Service
from dsh_cordis_loader import LOADER, LoaderError
from dsh_home_paths import canonical_watch_path

from ._errors import HmrError
from ._keys import HMR, AtFirst, HmrConfig

if TYPE_CHECKING:
    from dsh_cordis import Context, Disposer

    from ._files import WatchedFile


class Hmr(Service):
    """Reloads plugins and refreshes configuration files as they are edited.

    What watches is imported when the tree has come to rest for the first time: a boot has better
    things to do.
    """

    provides: ClassVar = HMR
    inject: ClassVar = (LOADER,)
    Config: ClassVar = HmrConfig

    def __init__(self, ctx: Context, config: HmrConfig) -> None:
        super().__init__(ctx, config)
        self._config = config
        self._loader = ctx[LOADER]
        self._began_ns = time.time_ns()
        self._files: dict[Path, WatchedFile] = {}
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
        from ._files import WatchedFile

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

    def start(self) -> None:
        """Begin to watch once the tree is at rest."""
        self.own.spawn(self._run, stop=self._stop, name="file watch")

    def _wake(self) -> None:
        self._woken.set()

    def _stop(self) -> None:
        self._stopping = True
        self._wake()

    async def _run(self) -> None:
        try:
            with suppress(LoaderError):  # rows that failed are watched too: an edit may help them
                await self._loader.settled()
            if not self._stopping:
                await self._watch()
        finally:
            self._stopping = True
            self._release(self._waiting)

    async def _watch(self) -> None:
        from ._watching import Watching

        watching = Watching(self.own, self._config, self._wake, began_ns=self._began_ns)
        try:
            while not self._stopping:
                waiting, self._waiting = self._waiting, []
                try:
                    await watching.catch_up(self._files.values())
                finally:
                    self._release(waiting)
                with suppress(TimeoutError):
                    async with asyncio.timeout(watching.patience_s):
                        await self._woken.wait()
                self._woken.clear()
        finally:
            await watching.close()

    def _release(self, waiting: list[asyncio.Future[None]]) -> None:
        for done in waiting:
            if not done.done():
                done.set_result(None)
        waiting.clear()
