"""A loader with groups, includes and a few plugins that keep a journal."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest
from dsh_cordis import Context, Service, ServiceKey
from dsh_cordis_include import register_builtins
from dsh_cordis_loader import LOADER, EntryPoints, Loader, LoaderOptions

SVC = ServiceKey[object]("svc")


@pytest.fixture
def journal() -> list[object]:
    """What the plugins did, in order."""
    return []


@pytest.fixture
async def loader(
    anyio_backend: str, journal: list[object], caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Loader]:
    """A loader that knows builtins only: `cordis:note`, `cordis:broken`, `cordis:provider`."""
    caplog.set_level(logging.CRITICAL, "dsh.cordis")
    async with Context() as root:
        await root.plugin(Loader, LoaderOptions(entry_points=EntryPoints({})))
        loader = root.get(LOADER)
        assert loader is not None
        register_builtins(loader)

        def note(ctx: Context, config: object) -> object:
            journal.append(("up", config))
            return lambda: journal.append(("down", config))

        def broken(ctx: Context, config: object) -> None:
            raise ValueError("boom")

        class Provider(Service):
            provides = SVC

        for name, plugin in (("note", note), ("broken", broken), ("provider", Provider)):
            loader.builtin(name, plugin)
        yield loader
