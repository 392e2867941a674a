"""The process in which `dsh doctor` starts a profile: findings on stdout, one object a line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from dsh_app_boot import (
    BootError,
    Quarantine,
    Watchdog,
    boot,
    bundle_hint,
    compose,
    failure_reason,
    join_site,
    leave,
    open_profile,
)
from dsh_cmdline import APP_EXIT, CMDLINE
from dsh_cordis import Context, CordisError, Finding, ServiceKey
from dsh_cordis_loader import LOADER, scan_entry_points
from dsh_home_paths import resolve_dsh_home
from dsh_launch_environment import load_layered_environment

from ._doctor import STEP, STEP_BY_STEP
from ._doctor import timeout_ms as _timeout_ms
from ._doctor_asking import ask
from ._doctor_report import Report, end_with_parent
from ._doctor_waiting import waiting_for

if TYPE_CHECKING:
    from dsh_app_boot import Composition
    from dsh_cordis_loader import Loader, RowFailure

ASKING_S: Final = 5.0
"""How long one service may take to look at itself."""

AGAIN_MS: Final = 5_000
"""How long a row may take in a tree in which another was waited for in vain."""

UNLOAD_S: Final = 0.5
"""How long plugins may take to unload before the process ends anyway."""


def main(name: str, *flags: str) -> None:
    """Start profile `name` without its application, tell what was found, and end.

    With STEP_BY_STEP start one row of the user's after the other, and tell which before each.
    """
    end_with_parent()
    asyncio.run(_examine(name, Report(), step_by_step=STEP_BY_STEP in flags))
    leave(0)


async def _examine(name: str, tell: Report, *, step_by_step: bool) -> None:
    home = resolve_dsh_home()
    points = scan_entry_points()
    profile = open_profile(name, home=home, entry_points=points, create=False)
    points = join_site(profile, points)
    composition = compose(profile, home=home, entry_points=points, tolerant=True)
    root = Context()
    try:
        environment = load_layered_environment("dsh", Path.cwd(), home, os.environ)
        tell.hide(environment.merged)
        await boot(root, (), home=home, environment=environment, entry_points=points)
        if step_by_step:
            await _step(root, composition, tell)
        else:
            hint = bundle_hint(profile, points)
            await _start(root, composition, tell, hint)
            await ask(root, tell, bound_s=min(ASKING_S, _timeout_ms() / 1000))
    except CordisError as error:
        tell(Finding("error", "start", str(error)))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(UNLOAD_S):
            await root.fiber.dispose()


async def _step(root: Context, composition: Composition, tell: Callable[[Finding], None]) -> None:
    loader = root.get(LOADER)
    assert loader is not None
    rows = [row for row in composition.rows if composition.trusted(row.origin)]
    await loader.start_rows(rows, activation_timeout_ms=_timeout_ms())
    for row in composition.rows:
        if not composition.trusted(row.origin):
            tell(Finding("ok", STEP, row.id))
            rows.append(row)
            await loader.start_rows(rows, activation_timeout_ms=_timeout_ms())


async def _start(
    root: Context, composition: Composition, tell: Callable[[Finding], None], hint: str
) -> None:
    loader = root.get(LOADER)
    assert loader is not None
    timeout_ms = _timeout_ms()

    def blocked(starting: tuple[str, ...], text: str) -> None:
        remedies = quarantine.remedies(starting)
        tell(Finding("error", "start", text, "; ".join(remedies)))
        leave(0)

    quarantine = Quarantine(composition)
    with Watchdog(loader, timeout_ms, blocked):
        first = await loader.start_rows(composition.rows, activation_timeout_ms=timeout_ms)
        application = _application(loader, composition, first, tell)
        rows = tuple(row for row in composition.rows if row.id not in application)
        quarantine = Quarantine(msgspec.structs.replace(composition, rows=rows))
        late = {one.entry_id: failure_reason(one) for one in first if one.kind == "timeout"}
        # What runs stays; what was waited for in vain is not waited for as long again.
        again_ms = min(timeout_ms, AGAIN_MS) if late else timeout_ms
        failures = await quarantine.start(loader, timeout_ms=again_ms)
    for row in quarantine.rows:
        reason = late.get(row.entry_id, row.reason) if row.stuck else row.reason
        tell(Finding("error", f"row {row.entry_id} ({row.name})", reason, row.remedy))
    for failure in failures:
        subject = f"row {failure.entry_id} ({failure.row.name})"
        tell(Finding("error", subject, failure_reason(failure), hint if failure.missing else ""))
    if not failures:
        running = sum(entry.fiber is not None for entry in loader.entries())
        tell(Finding("ok", "start", f"{running} rows run"))


def _application(
    loader: Loader,
    composition: Composition,
    failures: Sequence[RowFailure],
    tell: Callable[[Finding], None],
) -> Collection[str]:
    """Ids of the rows that lack nothing but a command line, or what such a row provides."""
    waiting = {failure.entry_id: failure for failure in failures if failure.kind == "wait"}
    excused, silent = waiting_for(
        (CMDLINE.name, APP_EXIT.name),
        {row_id: failure.missing for row_id, failure in waiting.items()},
        {row_id: _provides(loader, row_id) for row_id in waiting},
    )
    if not silent:
        return excused
    # The installation's own rows fit together: what they lack comes from one that does not say so.
    unsure = {row for row in waiting if composition.trusted(waiting[row].row.origin)} - excused
    for row_id in sorted(unsure):
        reason = f"{failure_reason(waiting[row_id])}, which the application may provide"
        tell(Finding("warning", f"row {row_id} ({waiting[row_id].row.name})", reason))
    return excused | unsure


def _provides(loader: Loader, entry_id: str) -> str | None:
    """The service that a plugin says it provides."""
    key = getattr(loader.resolve(entry_id).plugin, "provides", None)
    return key.name if isinstance(key, ServiceKey) else None


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BootError as error:
        sys.stderr.write(f"{error}\n")
        leave(1)
