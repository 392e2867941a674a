"""One thread that waits for changes in a fixed set of directories."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

_log = logging.getLogger("dsh.cordis.hmr")


class Notifier:
    """Calls `changed(paths)` in the event loop for what happens directly in `directories`.

    A thread of its own, since a worker of a pool would outlive the watch. watchfiles is imported
    there, so that the loop does not wait for it.
    """

    def __init__(
        self,
        directories: Sequence[str],
        changed: Callable[[frozenset[str]], None],
        *,
        step_ms: int,
    ) -> None:
        self.directories = tuple(directories)
        self._changed = changed
        self._step_ms = step_ms
        self._loop = asyncio.get_running_loop()
        self._armed: asyncio.Future[None] = self._loop.create_future()
        self._ended = asyncio.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dsh hmr watch", daemon=True)

    async def start(self) -> None:
        """Returns once changes are seen. Raises OSError if the system refuses, then it is over."""
        self._thread.start()
        try:
            await asyncio.shield(self._armed)
        except OSError:
            await self.ended()
            raise

    def close(self) -> None:
        """Ask the thread to end; `ended` waits for that."""
        self._stop.set()

    async def ended(self) -> None:
        """Wait until thread and descriptors are gone."""
        await self._ended.wait()
        # It has said its last word, so this does not block.
        self._thread.join()

    def _run(self) -> None:
        try:
            self._watch()
        except Exception as error:  # noqa: BLE001 - containment: the thread's failure belongs to who starts it
            self._tell(self._fail, error)
        finally:
            self._tell(self._ended.set)

    def _watch(self) -> None:
        # Not watchfiles.watch: it does not say when it has begun to see changes.
        from watchfiles._rust_notify import RustNotify

        with self._opened(RustNotify) as watcher:
            self._tell(self._set_armed)
            while True:
                # No timeout: one would drop what happens just as it ends.
                found = watcher.watch(self._step_ms, self._step_ms, 0, self._stop)
                if isinstance(found, str):
                    return
                self._tell(self._changed, frozenset(path for _, path in found))

    def _opened(self, notify: type[RustNotify]) -> RustNotify:
        make = partial(
            notify,
            watch_paths=list(self.directories),
            debug=False,
            force_polling=False,
            poll_delay_ms=0,
            recursive=False,
        )
        try:
            return make(ignore_permission_denied=False)
        except (FileNotFoundError, PermissionError):
            # Without the directories that cannot be watched.
            return make(ignore_permission_denied=True)

    def _tell(self, call: Callable[..., object], *args: object) -> None:
        # A loop that was closed has nobody left to tell.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *args)

    def _set_armed(self) -> None:
        if not self._armed.done():
            self._armed.set_result(None)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, RuntimeError):
            # What watchfiles wraps where it knows no better.
            error = OSError(str(error))
        if not self._armed.done():
            self._armed.set_exception(error)
            return
        _log.error("watching files ended: %r", error, exc_info=error)
