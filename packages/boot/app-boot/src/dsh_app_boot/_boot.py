"""From rows to a running tree."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dsh_cordis import Context, CordisError, FiberState
from dsh_cordis_include import register_builtins
from dsh_cordis_loader import LOADER, Loader, LoaderOptions, Row
from dsh_home_paths import HOME_PATH, HomePath
from dsh_launch_environment import LAUNCH_ENVIRONMENT, LaunchEnvironment

from ._audit import audit
from ._errors import BootError
from ._quarantine import QUARANTINE, Quarantine
from ._watchdog import ACTIVATION_TIMEOUT_MS, Blocked, Watchdog

if TYPE_CHECKING:
    from dsh_cordis_loader import EntryPoints, RowFailure, RowStore


_UNLOAD_S: Final = 1.0
"""How long the end of a tree that failed to boot is waited for before the failure is told."""


async def boot(
    root: Context,
    rows: Sequence[Row],
    *,
    home: Path,
    environment: LaunchEnvironment,
    entry_points: EntryPoints | None = None,
    prepare: Callable[[Context], None] | None = None,
    hint: Callable[[], str] = str,
    quarantine: Quarantine | None = None,
    store: RowStore | None = None,
    activation_timeout_ms: int = ACTIVATION_TIMEOUT_MS,
    blocked: Blocked | None = None,
) -> None:
    """Run `rows` below `root` and wait until all of them are active.

    Provides the home's path, the launch environment and the loader; `prepare(root)` may provide
    more before any row starts. Returns quietly if the tree is disposed meanwhile. On failure the
    tree is disposed (what takes longer than a second goes on) and BootError raised
    (`PREPARATION_FAILED`, `LOAD_FAILED`, `NOT_ACTIVATED`); what `hint` says is added to the latter
    where services are missing.

    With a `quarantine` its composition is started instead of `rows`, and only what the installation
    itself brings can fail the boot; a strict one refuses the rest too (`REFUSED`).
    `store` keeps what changes of rows at run time.
    `blocked` hears, in another thread, what holds up the event loop for longer than a row may take.
    """
    try:
        root.provide(HOME_PATH, HomePath(home))
        root.provide(LAUNCH_ENVIRONMENT, environment)
        options = LoaderOptions(
            entry_points=entry_points,
            environment=environment.merged,
            home=str(home),
            cwd=str(Path.cwd()),
        )
        loader = await _loader(root, options)
        if loader is None:
            return
        if quarantine is not None:
            root.provide(QUARANTINE, quarantine)
        if prepare is not None:
            _prepare(prepare, root)
        with Watchdog(loader, activation_timeout_ms, blocked):
            if quarantine is None:
                await _apply(loader, rows, hint)
            else:
                failures = await quarantine.start(loader, timeout_ms=activation_timeout_ms)
                if failures and alive(root):
                    raise _failed(failures, loader, quarantine, hint)
        if store is not None and alive(root):
            loader.store_with(store)
    except BootError:
        # A row whose body never ends holds up the end of the tree, but not the news.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_UNLOAD_S):
                await root.fiber.dispose()
        raise


async def _loader(root: Context, options: LoaderOptions) -> Loader | None:
    await root.plugin(Loader, options)
    loader = root.get(LOADER)
    if loader is not None:
        register_builtins(loader)
    return loader


def _prepare(prepare: Callable[[Context], None], root: Context) -> None:
    try:
        prepare(root)
    except Exception as error:
        raise BootError(
            f"host preparation failed: {explain(error)}", code="PREPARATION_FAILED"
        ) from error


async def _apply(loader: Loader, rows: Sequence[Row], hint: Callable[[], str]) -> None:
    try:
        await loader.apply(rows, check=lambda: audit(loader.entries(), hint=hint))
    except BootError:
        raise
    except Exception as error:
        raise BootError(
            f"plugin tree failed to load: {explain(error)}", code="LOAD_FAILED"
        ) from error


def _failed(
    failures: Sequence[RowFailure],
    loader: Loader,
    quarantine: Quarantine,
    hint: Callable[[], str],
) -> BootError:
    if not (quarantine.strict and quarantine.rows):
        return _fatal(failures, loader, hint)
    stacks = [_stack(f.error) for f in failures if f.error is not None and not _explained(f.error)]
    return BootError("\n".join(["a strict start lets nothing fail", *stacks]), code="REFUSED")


def _fatal(failures: Sequence[RowFailure], loader: Loader, hint: Callable[[], str]) -> BootError:
    """The error for rows of the installation that do not start."""
    broken = [failure for failure in failures if failure.kind != "wait"]
    if not broken:
        try:
            audit(loader.entries(), hint=hint)
        except BootError as error:
            return error
    text = "".join(f"\n  - {failure.message}" for failure in broken)
    if len(broken) == 1:
        text = f" {broken[0].message}"
    cause = next((failure.error for failure in broken if failure.error is not None), None)
    error = BootError(f"plugin tree failed to load:{text}", code="LOAD_FAILED")
    error.__cause__ = cause
    return error if cause is None else BootError(explain(error), code="LOAD_FAILED")


def alive(root: Context) -> bool:
    """Whether the tree still runs and was not asked to end."""
    return root.fiber.state is FiberState.ACTIVE and root.get(LOADER) is not None


def explain(error: BaseException) -> str:
    """The message; for a failure that is not the product's own, the deepest cause's stack too."""
    return str(error) if _explained(error) else f"{error}\n{_stack(error)}"


def _explained(error: BaseException) -> bool:
    return isinstance(_deepest(error), CordisError)


def _stack(error: BaseException) -> str:
    return "".join(traceback.format_exception(_deepest(error), chain=False)).rstrip()


def _deepest(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
