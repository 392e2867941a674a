"""Files that somebody wants to hear of: one run at a time for each, none lost, none twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsh_cordis import CordisError, cancelled_from_outside

from ._errors import HmrError
from ._keys import CONFIG_UPDATE_FAILED, AtFirst, ConfigUpdateFailed
from ._state import ABSENT, Watched

if TYPE_CHECKING:
    from dsh_cordis import Context

_log = logging.getLogger("dsh.cordis.hmr")


class WatchedFile:
    """A path, what to do when its content changes, and the run that does it."""

    def __init__(
        self,
        path: Path,
        refresh: Callable[[], Awaitable[object]],
        *,
        owner: Context,
        own: Context,
        at_first: AtFirst = "if-present",
        waits: bool = True,
    ) -> None:
        """Runs belong to `owner`, whose unload waits for one that is active if `waits`."""
        self.path = path
        self._at_first: AtFirst = at_first
        self._waits = waits
        self._refresh = refresh
        self._owner = owner
        self._own = own
        self._watched: Watched | None = None
        self._failed = False
        self._wanted = False
        self._closed = False
        self._task: asyncio.Task[Any] | None = None

    @property
    def names(self) -> Collection[str]:
        """How its changes are reported."""
        return () if self._watched is None else self._watched.names

    def check(self, events: Collection[str]) -> None:
        """Run the refresh if the content is new, or if a failed one may go better now."""
        watched = self._watched
        if watched is None:
            watched = self._watched = Watched(str(self.path))
            present = watched.digest != ABSENT and self._at_first == "if-present"
            if present or self._at_first == "always":
                self._run_once_more()
        elif watched.look(events) or (self._failed and watched.names.intersection(events)):
            self._run_once_more()

    def close(self) -> None:
        """No run begins any more."""
        self._closed = True
        self._wanted = False

    def dispose(self) -> Awaitable[None]:
        """Close; awaiting the result waits for the active run, unless that is what asks."""
        self.close()
        return _over(None if self._task is asyncio.current_task() else self._task)

    def _run_once_more(self) -> None:
        if self._closed:
            return
        self._wanted = True
        if self._task is not None:
            return
        try:
            # Stopped by letting it finish: half a refresh would leave things half changed.
            self._task = self._owner.spawn(
                self._run,
                stop=self.close if self._waits else None,
                name=f"refresh of {self.path.name}",
            )
        except CordisError:
            # Its owner is on the way out and has not come to this registration yet.
            self.close()
            return
        self._task.add_done_callback(self._ended)

    def _ended(self, _task: object) -> None:
        self._task = None

    async def _run(self) -> None:
        while self._wanted:
            self._wanted = False
            error = await _outcome(self._refresh, self.path)
            self._failed = error is not None
            if error is not None:
                await self._report(error)

    async def _report(self, error: Exception) -> None:
        expected = isinstance(error, CordisError)
        _log.error(
            "%s changed and cannot be used, what was before goes on: %s",
            self.path,
            error if expected else repr(error),
            exc_info=None if expected else error,
        )
        await self._own.parallel(CONFIG_UPDATE_FAILED, ConfigUpdateFailed(self.path, error))


async def _over(task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        # asyncio.wait: who waits must not cancel the run.
        await asyncio.wait({task})


async def _outcome(refresh: Callable[[], Awaitable[object]], path: Path) -> Exception | None:
    """Why the refresh failed; always an error, whatever it raised."""
    try:
        await refresh()
    except Exception as error:  # noqa: BLE001 - containment: the next change is refreshed all the same
        return error
    except (asyncio.CancelledError, SystemExit) as error:
        if cancelled_from_outside():
            raise
        failure = HmrError(
            f"the refresh of {path} ended with {type(error).__name__}({error})",
            code="REFRESH_STOPPED",
        )
        failure.__cause__ = error
        return failure
    return None
