"""The process in which `dsh doctor` starts a profile: findings on stdout, one object a line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Collection
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
from dsh_cordis import Context, CordisError, Finding, Service, ServiceKey
from dsh_cordis_loader import LOADER, scan_entry_points
from dsh_home_paths import resolve_dsh_home
from dsh_launch_environment import load_layered_environment

from ._doctor import STEP, STEP_BY_STEP
from ._doctor import timeout_ms as _timeout_ms

if TYPE_CHECKING:
    from dsh_app_boot import Composition
    from dsh_cordis_loader import Loader

ASKING_S: Final = 5.0
"""How long one service may take to look at itself."""

UNLOAD_S: Final = 2.0
"""How long plugins may take to unload before the process ends anyway."""


def main(name: str, *flags: str) -> None:
    """Start profile `name` without its application, tell what was found, and end.

    With STEP_BY_STEP start one row of the user's after the other, and tell which before each.
    """
    # What plugins print must not be taken for findings.
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(finding: Finding) -> None:
        told.write(msgspec.json.encode(finding).decode() + "\n")
        told.flush()

    asyncio.run(_examine(name, tell, step_by_step=STEP_BY_STEP in flags))
    leave(0)


async def _examine(name: str, tell: Callable[[Finding], None], *, step_by_step: bool) -> None:
    home = resolve_dsh_home()
    points = scan_entry_points()
    profile = open_profile(name, home=home, entry_points=points, create=False)
    points = join_site(profile, points)
    composition = compose(profile, home=home, entry_points=points, tolerant=True)
    root = Context()
    try:
        environment = load_layered_environment("dsh", Path.cwd(), home, os.environ)
        await boot(root, (), home=home, environment=environment, entry_points=points)
        if step_by_step:
            await _step(root, composition, tell)
        else:
            hint = bundle_hint(profile, points)
            await _start(root, composition, tell, hint)
            await _ask(root, tell)
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
        application = await _application(loader, composition, timeout_ms)
        rows = tuple(row for row in composition.rows if row.id not in application)
        quarantine = Quarantine(msgspec.structs.replace(composition, rows=rows))
        failures = await quarantine.start(loader, timeout_ms=timeout_ms)
    for row in quarantine.rows:
        tell(Finding("error", f"row {row.entry_id} ({row.name})", row.reason, row.remedy))
    for failure in failures:
        subject = f"row {failure.entry_id} ({failure.row.name})"
        tell(Finding("error", subject, failure_reason(failure), hint if failure.missing else ""))
    if not failures:
        running = sum(entry.fiber is not None for entry in loader.entries())
        tell(Finding("ok", "start", f"{running} rows run"))


async def _application(
    loader: Loader, composition: Composition, timeout_ms: int
) -> Collection[str]:
    """Ids of the rows that lack nothing but a command line, or what such a row provides."""
    failures = await loader.start_rows(composition.rows, activation_timeout_ms=timeout_ms)
    waiting = [failure for failure in failures if failure.kind == "wait"]
    absent = {CMDLINE.name, APP_EXIT.name}
    direct = [failure.entry_id for failure in waiting if absent >= {*failure.missing}]
    provides = [_provides(loader, entry_id) for entry_id in direct]
    if None in provides:
        # What these rows would provide is not known before they run: assume what others lack.
        return [failure.entry_id for failure in waiting if absent & {*failure.missing}]
    absent.update(filter(None, provides))
    return [failure.entry_id for failure in waiting if absent >= {*failure.missing}]


def _provides(loader: Loader, entry_id: str) -> str | None:
    """The service that a plugin says it provides."""
    key = getattr(loader.resolve(entry_id).plugin, "provides", None)
    return key.name if isinstance(key, ServiceKey) else None


async def _ask(root: Context, tell: Callable[[Finding], None]) -> None:
    """What every service has to say of itself."""
    for provided in root.registry.services():
        if not isinstance(provided.value, Service):
            continue
        try:
            async with asyncio.timeout(ASKING_S):
                found = provided.value.diagnose()
                if isinstance(found, AsyncIterator):
                    async for finding in found:
                        tell(finding)
                else:
                    for finding in found:
                        tell(finding)
        except Exception as error:  # noqa: BLE001 - containment: one service cannot silence the others
            tell(Finding("error", provided.name, f"its look at itself failed: {error!r}"))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BootError as error:
        sys.stderr.write(f"{error}\n")
        leave(1)
