"""Real profiles, booted in this process and edited while they run."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from dsh_agent_loop_testkit import assert_no_leaks
from dsh_app_boot import boot, compose, open_profile
from dsh_app_boot._live import watch_layers
from dsh_cordis import Context, Fiber, ServiceKey
from dsh_cordis_hmr import CONFIG_UPDATE_FAILED, HMR, HMR_RELOAD, ConfigUpdateFailed, Reloaded
from dsh_cordis_loader import CONFIG_UPDATE, LOADER, Row, scan_entry_points
from dsh_launch_environment import LaunchEnvironment

HANG_S = 10
"""A test that waits longer than this for an event has failed."""

NOTES = """
    from dsh_cordis import ServiceKey

    VALUE = {value!r}

    def apply(ctx, config):
        journal = ctx.get(ServiceKey("journal"))
        journal.append(("up", VALUE, config))
        return lambda: journal.append(("down", VALUE, config))
"""


class _Tell(logging.Handler):
    """Calls back for each line of the log."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__()
        self._call = call

    def emit(self, record: logging.LogRecord) -> None:
        # Later, when whoever else listens has it.
        asyncio.get_running_loop().call_soon(self._call)


class Live:
    """A profile on dsh-base whose layers are watched."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.profile = self.home / "profiles" / "mine"
        self.profile.mkdir(parents=True)
        (self.profile / "pyproject.toml").write_text('[tool.dsh.profile]\nbundles = ["dsh-base"]\n')
        self.patch = self.profile / "cordis.patch.yml"
        self.home_patch = self.home / "cordis.patch.yml"
        self.overlays: list[Path] = []
        self.points = scan_entry_points()
        self.root = Context()
        self.journal: list[object] = []
        self.failures: list[ConfigUpdateFailed] = []
        self.reloads: list[Reloaded] = []
        self.watching: Fiber | None = None
        self._news = asyncio.Event()

    def write(self, file: Path, text: str) -> None:
        file.write_text(textwrap.dedent(text), "utf-8")

    def plugin(self, name: str, value: object) -> Path:
        """Write a plugin beside the profile's patch that notes its value as it comes and goes."""
        file = self.profile / name
        self.write(file, NOTES.format(value=value))
        return file

    def compose(self) -> Sequence[Row]:
        profile = open_profile("mine", home=self.home, entry_points=self.points)
        return compose(
            profile, home=self.home, entry_points=self.points, overlays=self.overlays
        ).rows

    @asynccontextmanager
    async def booted(
        self,
        *,
        watched: bool = True,
        delay_s: float = 0.0,
        provide: Callable[[Context], None] | None = None,
    ) -> AsyncIterator[Context]:
        async with assert_no_leaks(), self.root as root:
            root.provide(ServiceKey[list[object]]("journal"), self.journal)
            await boot(
                root,
                self.compose(),
                home=self.home,
                environment=LaunchEnvironment({"PATH": os.environ["PATH"]}),
                entry_points=self.points,
                prepare=provide,
            )
            root.on(CONFIG_UPDATE, self._news.set)
            root.on(CONFIG_UPDATE_FAILED, self._failed)
            root.on(HMR_RELOAD, self._reloaded)
            if watched:
                self.watching = watch_layers(
                    root,
                    files=(self.patch, self.home_patch),
                    recompose=self.compose,
                    delay_s=delay_s,
                )
                if not delay_s:
                    # The look at what has changed since the boot is the first news.
                    await self.news()
            if (hmr := root.get(HMR)) is not None:
                await hmr.ready()
            handler = _Tell(self._news.set)
            logging.getLogger("dsh").addHandler(handler)
            try:
                yield root
            finally:
                logging.getLogger("dsh").removeHandler(handler)

    def _failed(self, event: ConfigUpdateFailed) -> None:
        self.failures.append(event)
        self._news.set()

    def _reloaded(self, event: Reloaded) -> None:
        self.reloads.append(event)
        self._news.set()

    async def news(self) -> None:
        async with asyncio.timeout(HANG_S):
            await self._news.wait()
        self._news.clear()

    async def until(self, claim: Callable[[], object]) -> None:
        """Wait for events until the claim holds."""
        async with asyncio.timeout(HANG_S):
            while not claim():
                self._news.clear()
                await self._news.wait()

    @property
    def loader(self):
        return self.root.get(LOADER)

    def fiber(self, entry_id: str) -> Fiber | None:
        return self.loader.resolve(entry_id).fiber

    def fibers(self) -> dict[str, Fiber | None]:
        return {entry.id: entry.fiber for entry in self.loader.entries()}


@pytest.fixture
def live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Live]:
    caplog.set_level(logging.WARNING)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    before = set(sys.modules)
    yield Live(tmp_path)
    for name in set(sys.modules) - before:
        if name.startswith("dsh_file_"):
            del sys.modules[name]
