"""Asking every service of a tree what it has to say of itself."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from dsh_cordis import Finding, Service

if TYPE_CHECKING:
    from dsh_cordis import Context

_SAYS: Final = 100
"""How many findings of one service are passed on."""

_BLOCKED_S: Final = 0.5
"""How much longer one may take that holds up the event loop, until it is interrupted."""


async def ask(root: Context, tell: Callable[[Finding], None], *, bound_s: float) -> None:
    """Tell what each service finds, at most `bound_s` seconds each, whatever another one does.

    Must run in the main thread: one that holds up the event loop is interrupted by a signal.
    """
    for provided in root.registry.services():
        service = provided.value
        if not isinstance(service, Service):
            continue
        failed = ""
        try:
            with _interrupted_after(bound_s + _BLOCKED_S):
                async with asyncio.timeout(bound_s):
                    await _listen(service, tell)
        except TimeoutError:
            failed = f"did not end within {bound_s:g} s"
        except (Exception, SystemExit) as error:  # noqa: BLE001 - containment: one service cannot silence the others
            failed = f"failed: {error!r}"
        if failed:
            tell(Finding("error", f"service {provided.name}", f"its look at itself {failed}"))


async def _listen(service: Service, tell: Callable[[Finding], None]) -> None:
    said = 0
    async for finding in _each(service):
        if said == _SAYS:
            raise ValueError(f"it finds more than {_SAYS} things")
        said += 1
        tell(finding)


async def _each(service: Service) -> AsyncIterator[Finding]:
    found = service.diagnose()
    if isinstance(found, AsyncIterator):
        async for finding in found:
            yield finding
    else:
        for finding in found:
            yield finding


@contextmanager
def _interrupted_after(seconds: float) -> Generator[None]:
    """Raise TimeoutError out of what the main thread does by then, be it a blocking call."""

    def interrupt(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
