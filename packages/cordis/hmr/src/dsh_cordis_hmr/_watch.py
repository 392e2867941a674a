"""The directories that are watched now, and what happened in them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from ._notifier import Notifier
from ._state import Ignored, directories_below, identity

_log = logging.getLogger("dsh.cordis.hmr")

LONGEST_STEP_MS = 50
"""How long the watching thread sleeps at most before it looks again."""

PATIENCE = 10
"""A burst of changes is taken as it is after that many times the quiet that is waited for."""


class DirectoryWatch:
    """Watches a changing set of directories, each alone, and collects the paths that changed."""

    def __init__(
        self,
        wake: Callable[[], None],
        *,
        roots: tuple[Path, ...],
        ignored: Ignored,
        debounce_ms: int,
    ) -> None:
        self._wake = wake
        self._roots = roots
        self._ignored = ignored
        self._quiet_s = debounce_ms / 1000
        self._step_ms = max(1, min(LONGEST_STEP_MS, debounce_ms // 2))
        self._notifier: Notifier | None = None
        self._armed: frozenset[tuple[str, int, int]] = frozenset()
        self._tree_changed = True
        self._below: frozenset[str] | None = None
        self._events: set[str] = set()
        self._happened = asyncio.Event()
        self.polls = False
        """Whether nothing tells of changes, so that files have to be looked at now and then."""

    async def settle(self) -> frozenset[str]:
        """The paths that changed, once it has been quiet; empty if nothing did."""
        if not self._events:
            return frozenset()
        loop = asyncio.get_running_loop()
        latest = loop.time() + PATIENCE * self._quiet_s
        while (left := min(self._quiet_s, latest - loop.time())) > 0:
            self._happened.clear()
            try:
                async with asyncio.timeout(left):
                    await self._happened.wait()
            except TimeoutError:
                break
        events, self._events = frozenset(self._events), set()
        if self._roots and any(map(self._is_directory, events)):
            self._tree_changed = True
        # What happened to a directory itself may have put another in its place, and that one may
        # even have got its inode number.
        self._armed = frozenset(one for one in self._armed if one[0] not in events)
        return events

    async def arm(self, directories: Collection[str]) -> bool:
        """Watch these and the roots; whether that is another set than before.

        Files may have changed before the new watch began: the caller looks at all of them then.
        """
        wanted = frozenset(
            one for name in {*directories, *self._root_directories()} if (one := identity(name))
        )
        if wanted == self._armed:
            return False
        old, self._notifier = self._notifier, None
        if wanted and not self.polls:
            self._notifier = await self._start([name for name, _, _ in wanted])
        self._armed = wanted
        if old is not None:
            # After the new one has begun, so that nothing happens unseen.
            old.close()
            await old.ended()
        if any(identity(one[0]) != one for one in wanted):
            # One has gone or was put in place of another while the watch began.
            self._armed = frozenset()
            self._wake()
        return True

    async def close(self) -> None:
        """End the thread; nothing is open afterwards."""
        notifier, self._notifier = self._notifier, None
        self._armed = frozenset()
        if notifier is not None:
            notifier.close()
            await notifier.ended()

    def is_watched_root(self, path: str) -> bool:
        """Whether the path lies below a root and is not ignored there."""
        for root in self._roots:
            if path.startswith(f"{root}{os.sep}"):
                return not self._ignored(os.path.relpath(path, root))
        return False

    def _root_directories(self) -> Iterable[str]:
        if self._tree_changed:
            self._tree_changed = False
            before = self._below
            self._below = frozenset(directories_below(self._roots, self._ignored))
            if before is not None:
                # What came together with its directory was not seen coming.
                self._report_files(self._below - before)
        return self._below or ()

    def _report_files(self, directories: Iterable[str]) -> None:
        for directory in directories:
            with suppress(OSError):
                found = frozenset(one.path for one in os.scandir(directory) if one.is_file())
                if found:
                    self._changed(found)

    def _is_directory(self, path: str) -> bool:
        """Whether it is one now or was."""
        return os.path.isdir(path) or any(name == path for name, _, _ in self._armed)

    async def _start(self, directories: list[str]) -> Notifier | None:
        notifier = Notifier(directories, self._changed, step_ms=self._step_ms)
        try:
            await notifier.start()
        except OSError as error:
            self.polls = True
            _log.warning("the system tells of no changes, files are looked at instead: %s", error)
            return None
        return notifier

    def _changed(self, paths: frozenset[str]) -> None:
        self._events |= paths
        self._happened.set()
        self._wake()
