"""Whether everything that was to boot did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dsh_cordis import FiberState

from ._errors import BootError

if TYPE_CHECKING:
    from dsh_cordis_loader import Entry


def audit(entries: Sequence[Entry], *, hint: Callable[[], str] = str) -> None:
    """Raises BootError (`NOT_ACTIVATED`) unless every mounted row is active.

    Pending is legal while a tree lives, since a service may come; at boot nothing more will come.
    What `hint` says is added where a service is missing.
    """
    stuck = [
        entry
        for entry in entries
        if entry.fiber is not None and entry.fiber.state is not FiberState.ACTIVE
    ]
    if not stuck:
        return
    noun = "entry" if len(stuck) == 1 else "entries"
    lines = "".join(f"\n  {_reason(entry)}" for entry in stuck)
    if any(entry.missing_services for entry in stuck) and (hinted := hint()):
        lines += f"\n  {hinted}"
    raise BootError(f"{len(stuck)} {noun} did not activate{lines}", code="NOT_ACTIVATED")


def _reason(entry: Entry) -> str:
    fiber = entry.fiber
    assert fiber is not None
    name = entry.id if entry.id == entry.row.name else f"{entry.id} ({entry.row.name})"
    origin = f" [{entry.row.origin}]" if entry.row.origin else ""
    if fiber.state is FiberState.FAILED:
        return f"{name}: {fiber.error}{origin}"
    if fiber.state is not FiberState.PENDING:
        return f"{name}: fiber state {fiber.state.value}{origin}"
    missing = entry.missing_services
    noun = "services" if len(missing) > 1 else "service"
    return f"{name}: pending (waiting for {noun}: {', '.join(missing) or 'unknown'}){origin}"
