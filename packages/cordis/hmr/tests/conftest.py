"""A tree on a real kernel and loader, and plugins as real files that tests edit."""

from __future__ import annotations

import asyncio
import logging
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from dsh_cordis import Context, FiberState, ServiceKey
from dsh_cordis_hmr import CONFIG_UPDATE_FAILED, HMR, HMR_RELOAD, ConfigUpdateFailed, Hmr, Reloaded
from dsh_cordis_loader import (
    CONFIG_UPDATE,
    LOADER,
    Loader,
    LoaderOptions,
    parse_rows,
    read_yaml,
    scan_entry_points,
)

JOURNAL = ServiceKey[list[object]]("journal")
HANG_S = 10
"""A test that waits longer than this for an event has failed."""


PLUGIN = """
    from dsh_cordis import ServiceKey

    JOURNAL = ServiceKey("journal")
    VALUE = {value!r}

    def apply(ctx, config):
        journal = ctx.get(JOURNAL)
        journal.append(("up", VALUE, config))
        return lambda: journal.append(("down", VALUE))
"""


class _Tell(logging.Handler):
    """Sets an event for each line of the log."""

    def __init__(self, event: asyncio.Event) -> None:
        super().__init__()
        self._event = event

    def emit(self, record: logging.LogRecord) -> None:
        asyncio.get_running_loop().call_soon(self._event.set)


class Tree:
    """A loader with rows in a directory, and what happened in it."""

    def __init__(self, root: Context, loader: Loader, directory: Path) -> None:
        self.root = root
        self.loader = loader
        self.directory = directory
        self.journal: list[object] = []
        self.reloads: list[Reloaded] = []
        self.failures: list[ConfigUpdateFailed] = []
        self._news = asyncio.Event()
        root.provide(JOURNAL, self.journal)
        root.on(HMR_RELOAD, self._reloaded)
        root.on(CONFIG_UPDATE_FAILED, self._failed)
        root.on(CONFIG_UPDATE, self._news.set)

    def _reloaded(self, event: Reloaded) -> None:
        self.reloads.append(event)
        self._news.set()

    def _failed(self, event: ConfigUpdateFailed) -> None:
        self.failures.append(event)
        self._news.set()

    def plugin(self, name: str, value: object) -> Path:
        """Write a plugin that notes its value when it comes and goes."""
        return self.write(name, PLUGIN.format(value=value))

    def write(self, name: str, text: str) -> Path:
        file = self.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), "utf-8")
        return file

    async def rows(self, text: str) -> None:
        await self.loader.apply(
            parse_rows(
                read_yaml(textwrap.dedent(text), where="rows"),
                where="rows",
                base=str(self.directory),
                origin="test",
            )
        )

    async def watch(self, **config: object) -> Hmr:
        """Mount the service beside the rows, at work already."""
        await self.root.plugin(Hmr, {"debounce_ms": 10, **config})
        hmr = self.root.get(HMR)
        assert hmr is not None
        await hmr.ready()
        return hmr

    async def until(self, claim: Callable[[], object]) -> None:
        """Wait for events until the claim holds."""
        async with asyncio.timeout(HANG_S):
            while not claim():
                self._news.clear()
                await self._news.wait()

    async def logged(self, caplog: pytest.LogCaptureFixture, text: str) -> None:
        """Wait for a line of this package in the log."""
        handler = _Tell(self._news)
        logging.getLogger("dsh").addHandler(handler)
        try:
            await self.until(
                lambda: any(
                    text in record.message
                    for record in caplog.records
                    if record.name == "dsh.cordis.hmr"
                )
            )
        finally:
            logging.getLogger("dsh").removeHandler(handler)

    def poke(self) -> None:
        """Have `until` look again."""
        self._news.set()

    def entry(self, entry_id: str):
        return self.loader.resolve(entry_id)

    def state(self, entry_id: str) -> FiberState:
        return self.entry(entry_id).fiber.state


@pytest.fixture
def clean_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on the path; what a test imported from it is forgotten afterwards."""
    directory = tmp_path / "lib"
    directory.mkdir()
    monkeypatch.syspath_prepend(str(directory))
    before = set(sys.modules)
    yield directory
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if isinstance(file, str) and file.startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
async def tree(clean_modules: Path) -> AsyncIterator[Tree]:
    async with Context() as root:
        await root.plugin(Loader, LoaderOptions(entry_points=scan_entry_points([])))
        loader = root.get(LOADER)
        assert loader is not None
        yield Tree(root, loader, clean_modules)
