"""From rows to a running tree."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_cordis import Context, CordisError, FiberState
from dsh_cordis_include import register_builtins
from dsh_cordis_loader import LOADER, Loader, LoaderOptions, Row
from dsh_home_paths import HOME_PATH, HomePath
from dsh_launch_environment import LAUNCH_ENVIRONMENT, LaunchEnvironment

from ._audit import audit
from ._errors import BootError

if TYPE_CHECKING:
    from dsh_cordis_loader import EntryPoints


async def boot(
    root: Context,
    rows: Sequence[Row],
    *,
    home: Path,
    environment: LaunchEnvironment,
    entry_points: EntryPoints | None = None,
    prepare: Callable[[Context], None] | None = None,
    hint: str = "",
) -> None:
    """Run `rows` below `root` and wait until all of them are active.

    Provides the home's path, the launch environment and the loader; `prepare(root)` may provide
    more before any row starts. Returns quietly if the tree is disposed meanwhile. On failure the
    tree is disposed and BootError raised (`PREPARATION_FAILED`, `LOAD_FAILED`, `NOT_ACTIVATED`);
    `hint` is appended to the latter where services are missing.
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
        if prepare is not None:
            _prepare(prepare, root)
        await _apply(loader, rows, hint)
    except BootError:
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


async def _apply(loader: Loader, rows: Sequence[Row], hint: str) -> None:
    try:
        await loader.apply(rows, check=lambda: audit(loader.entries(), hint=hint))
    except BootError:
        raise
    except Exception as error:
        raise BootError(
            f"plugin tree failed to load: {explain(error)}", code="LOAD_FAILED"
        ) from error


def alive(root: Context) -> bool:
    """Whether the tree still runs and was not asked to end."""
    return root.fiber.state is FiberState.ACTIVE and root.get(LOADER) is not None


def explain(error: BaseException) -> str:
    """The message; for a failure that is not the product's own, the deepest cause's stack too."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, CordisError):
        return str(error)
    stack = "".join(traceback.format_exception(cause, chain=False)).rstrip()
    return f"{error}\n{stack}"
