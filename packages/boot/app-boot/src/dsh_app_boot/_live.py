"""Edits of the user's layers, applied while the product runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dsh_cordis import FiberState
from dsh_cordis_loader import LOADER, LoaderError, walk_rows

if TYPE_CHECKING:
    from dsh_cordis import Context, Disposer, Fiber
    from dsh_cordis_hmr import Hmr
    from dsh_cordis_loader import Loader, Row

LIVE_DELAY_S: Final = 1.0
"""How long a boot stands before its files are watched: what ends sooner pays nothing."""

_log = logging.getLogger("dsh.boot")


def watch_layers(
    root: Context,
    *,
    files: Sequence[Path],
    recompose: Callable[[], Sequence[Row]],
    delay_s: float = LIVE_DELAY_S,
) -> Fiber:
    """Apply what `recompose()` gives whenever one of `files` appears, changes or goes.

    Begins after `delay_s` seconds, with a look at what has changed since the boot. An edit that
    cannot be used is logged and told as `hmr/config-update-failed`, and the tree stays as it was.
    Disposing the result ends it.
    """
    return root.plugin(_LiveLayers(files, recompose, delay_s))


class _LiveLayers:
    """One plugin: it watches with a service of its own, which no row can replace or take away."""

    name = "live-layers"
    inject = (LOADER,)

    def __init__(
        self, files: Sequence[Path], recompose: Callable[[], Sequence[Row]], delay_s: float
    ) -> None:
        self._files = tuple(files)
        self._recompose = recompose
        self._delay_s = delay_s
        self._ended = asyncio.Event()
        self._applying = asyncio.Lock()
        self._asked = 0
        self._done = 0
        self._missed: dict[Path, Disposer] = {}

    def apply(self, ctx: Context, _config: object) -> None:
        """Run as a plugin's body."""
        self._ended.clear()
        self._missed.clear()
        ctx.spawn(self._run, ctx, stop=self._ended.set, name="live layers")

    async def _run(self, ctx: Context) -> None:
        try:
            async with asyncio.timeout(self._delay_s):
                await self._ended.wait()
        except TimeoutError:
            await self._watch(ctx)

    async def _watch(self, ctx: Context) -> None:
        from dsh_cordis_hmr import HMR, Hmr, HmrConfig  # only what runs long enough pays for it

        # In a realm of its own, beside the service of a row: an edit may change that row.
        private = ctx.isolate(HMR)
        await private.plugin(Hmr, HmrConfig(sources=False))
        hmr = private.get(HMR)
        if hmr is None:
            return
        loader = ctx[LOADER]

        async def refresh() -> None:
            await self._refresh(loader, hmr)

        for file in self._files:
            # The file may have gone since the boot: then its rows go too.
            hmr.watch_file(file, refresh, at_first="always")

    async def _refresh(self, loader: Loader, hmr: Hmr) -> None:
        """Recompose and apply once for all that asked until it began."""
        self._asked += 1
        mine = self._asked
        async with self._applying:
            if self._done >= mine:
                return
            # Files that changed together ask together: their runs begin in one step of the loop.
            await asyncio.sleep(0)
            self._done = self._asked
            await self._apply(loader, hmr)

    async def _apply(self, loader: Loader, hmr: Hmr) -> None:
        rows = tuple(self._recompose())
        waiting = _waiting(loader)
        try:
            await loader.apply(rows)
        except LoaderError:
            self._watch_missed(rows, loader, hmr)
            raise
        for file in tuple(self._missed):
            # Not awaited: a run of it may be the one that waits for this one to end.
            self._missed.pop(file)()
        for entry_id, services in _waiting(loader).items():
            if waiting.get(entry_id) != services:
                _log.warning("row %r waits for: %s", entry_id, ", ".join(services))

    def _watch_missed(self, rows: Sequence[Row], loader: Loader, hmr: Hmr) -> None:
        """Try again when a plugin file changes that only the refused rows name."""
        running = {entry.row.name for entry in loader.entries() if entry.fiber is not None}

        async def again() -> None:
            await self._refresh(loader, hmr)

        for row in walk_rows(rows):
            file = _plugin_file(row.name)
            if row.name not in running and file is not None and file not in self._missed:
                self._missed[file] = hmr.watch_file(file, again, at_first="never")


def _plugin_file(name: str) -> Path | None:
    path = name if name.endswith(".py") else name.rpartition(":")[0]
    return Path(path) if path.endswith(".py") and Path(path).is_absolute() else None


def _waiting(loader: Loader) -> dict[str, tuple[str, ...]]:
    return {
        entry.id: entry.missing_services
        for entry in loader.entries()
        if entry.fiber is not None and entry.fiber.state is FiberState.PENDING
    }
