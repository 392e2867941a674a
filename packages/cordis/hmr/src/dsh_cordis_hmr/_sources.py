"""Reloads of the plugins whose sources change."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dsh_cordis import CordisError, plugin_failure
from dsh_cordis_loader import LOADER, Entry, LoaderError

from ._fresh import FreshFinder, FreshImport, where_it_failed
from ._graph import ImportGraph, Installation, imported_names
from ._keys import HMR_RELOAD, Reloaded

if TYPE_CHECKING:
    from dsh_cordis import Context

_log = logging.getLogger("dsh.cordis.hmr")

_PRODUCT: Final = ("dsh_cordis", "dsh_cordis_loader", __name__.partition(".")[0])
"""What reloads, and therefore cannot be reloaded."""


class SourceReloads:
    """Knows the sources of what is mounted, and runs the code that they hold.

    Only what runs in the loader's own task touches `sys.modules`, so that no other change of the
    tree imports half of an attempt.
    """

    def __init__(self, ctx: Context, wake: Callable[[], None], *, began_ns: int) -> None:
        self._ctx = ctx
        self._loader = ctx[LOADER]
        self._wake = wake
        self._began_ns = began_ns
        self._loop = asyncio.get_running_loop()
        self._installation = Installation()
        self._graph = ImportGraph(self._installation, began_ns=began_ns)
        self._stale = True
        self._fixed: set[str] = set()
        self._told: set[str] = set()
        self._attempted: dict[str, bytes] = {}
        self._wanted = False
        self._task: asyncio.Task[Any] | None = None

    def start(self) -> Callable[[], None]:
        """Compile sources that are imported from now on as they are; the result ends it."""
        return FreshFinder(self._installation, self._found).install()

    def mark_stale(self) -> None:
        """What is mounted may have changed."""
        self._stale = True

    async def learn(self) -> None:
        """Look at what is mounted if that may have changed."""
        if self._stale:
            self._stale = False
            await self._learn()

    def files(self) -> set[str]:
        """Every source that is loaded."""
        return {source.file.path for source in self._graph.sources.values()}

    def knows(self, path: str) -> bool:
        """Whether `path` is one of them."""
        return any(path in source.file.names for source in self._graph.sources.values())

    def lies_beside(self, path: str) -> bool:
        """Whether `path` is no source, but in a directory of one."""
        if self.knows(path):
            return False
        directory = os.path.dirname(path)
        return any(os.path.dirname(file) == directory for file in self.files())

    def check(self, events: Collection[str]) -> None:
        """Reload if a file holds something else than what runs and that was not tried already."""
        changed = self._graph.changed(events)
        self._tell_restart(changed)
        changed = {name: found for name, found in changed.items() if name not in self._fixed}
        if not changed:
            self._attempted = {}
            return
        # A failed attempt may go better with a file that nothing has imported so far.
        news = any(one.endswith(".py") and not self.knows(one) for one in events)
        if changed == self._attempted and not news:
            return
        self._wanted = True
        if self._task is None:
            # Cancelled by an unload: the change itself goes on, in the loader's task.
            self._task = self._ctx.spawn(self._run, name="reload")
            self._task.add_done_callback(self._over)

    def _over(self, _task: object) -> None:
        self._task = None

    async def _run(self) -> None:
        while self._wanted:
            self._wanted = False
            await self._loader.exclusively(self._reload, gone=None)

    async def _learn(self) -> None:
        self._fixed = set()
        await self._graph.learn([*self._fixed_roots(), *self._mounted_modules()])
        self._fixed = self._graph.closure(self._fixed_roots())

    def _mounted_modules(self) -> list[str]:
        return [entry.module for entry in self._loader.entries() if entry.module is not None]

    def _fixed_roots(self) -> list[str]:
        """The modules of the running product, whose objects no row holds."""
        root = self._ctx.root
        provided = [one.value for one in root.registry.services() if one.fiber is root.fiber]
        builtins = [entry.plugin for entry in self._loader.entries() if entry.module is None]
        return [*_PRODUCT, *_program(), *(type(one).__module__ for one in (*provided, *builtins))]

    def _tell_restart(self, changed: Collection[str]) -> None:
        files = {self._graph.sources[name].file.path for name in changed if name in self._fixed}
        news = sorted(files - self._told)
        if news:
            self._told.update(news)
            _log.warning("%s changed and belongs to what is running: restart", ", ".join(news))

    # -- in the loader's task ---------------------------------------------------------------------

    async def _reload(self) -> None:
        await self._learn()
        changed = self._graph.changed()
        for name in self._fixed:
            changed.pop(name, None)
        self._attempted = changed
        if not changed:
            return
        files = sorted({self._graph.sources[name].file.path for name in changed})
        affected = self._graph.dependents(changed) - self._fixed
        entries = [
            entry
            for entry in self._loader.entries()
            if entry.fiber is not None and entry.module in affected
        ]
        fresh = FreshImport(affected, self._installation)
        try:
            plugins = self._import(entries, fresh)
        except BaseException as error:  # noqa: BLE001 - containment: the old code goes on
            fresh.restore()
            self._refuse(files, entries, plugin_failure(error))
            return
        try:
            await self._loader.replace(plugins)
        except LoaderError as error:
            fresh.restore()
            self._refuse(files, entries, error)
            return
        self._attempted = {}
        await self._learn()
        self._wake()
        if self._ctx.fiber.uid is not None:
            rows = tuple(entry.id for entry in entries)
            self._ctx.emit(HMR_RELOAD, Reloaded(tuple(map(Path, files)), rows))

    def _import(self, entries: Collection[Entry], fresh: FreshImport) -> dict[Entry, object]:
        plugins = {name: self._loader.load(name) for name in {e.row.name for e in entries}}
        fresh.import_rest()
        return {entry: plugins[entry.row.name] for entry in entries}

    def _refuse(self, files: list[str], entries: Collection[Entry], error: BaseException) -> None:
        rows = ", ".join(entry.id for entry in entries) or "nothing mounted"
        known = self.files()
        expected = isinstance(error, (CordisError, SyntaxError))
        _log.error(
            "%s changed and cannot be used, the code of before goes on (%s): %s",
            ", ".join(files),
            rows,
            where_it_failed(error, known),
            exc_info=None if expected else error,
        )

    def _found(self) -> None:
        """A source was imported, in some thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news)

    def _news(self) -> None:
        self._stale = True
        self._wake()


def _program() -> list[str]:
    """What the program that was started imports, if that is one that was installed."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if not isinstance(file, str):
        return []
    beside_python = os.path.dirname(os.path.abspath(file)) == os.path.dirname(sys.executable)
    if main.__spec__ is None and not beside_python:
        # Somebody's own script: its modules are as good as any.
        return []
    try:
        data = Path(file).read_bytes()
    except OSError:
        return []
    return sorted(imported_names(data, main))
