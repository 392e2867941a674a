"""A loader on a real kernel, and plugins as real files."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from dsh_cordis import Context, ServiceKey
from dsh_cordis_loader import LOADER, EntryPoints, Loader, LoaderOptions, Row, parse_rows, read_yaml

JOURNAL = ServiceKey[list[object]]("journal")

PLUGINS = """
    import asyncio

    from dsh_cordis import Service, ServiceKey

    from dsh_cordis_loader import LOADER

    JOURNAL = ServiceKey("journal")
    P = ServiceKey("p")

    class Provider(Service):
        provides = P

        def __init__(self, ctx, config=None):
            super().__init__(ctx, config)
            self.value = (config or {}).get("value")

        def expression_fields(self):
            return {"value": self.value}

    def note(ctx, config):
        journal = ctx.get(JOURNAL)
        journal.append(("up", config))
        return lambda: journal.append(("down", config))

    def note_p(ctx, config):
        return note(ctx, config)

    note_p.inject = (P,)

    def broken(ctx, config):
        raise ValueError("boom")

    def once(ctx, config):
        journal = ctx.get(JOURNAL)
        if "once" in journal:
            raise ValueError("second time")
        journal.append("once")

    async def slowly(ctx, config):
        ctx.get(JOURNAL).append(("begin", config))
        for _ in range(3):
            await asyncio.sleep(0)
        return note(ctx, config)

    def runner(ctx, config):
        journal = ctx.get(JOURNAL)

        async def run():
            await ctx[LOADER].settled()
            journal.append("settled")

        ctx.spawn(run, stop=lambda: journal.append("stop"))

    runner.inject = (LOADER,)

    def sometimes(ctx, config):
        if config.get("fail"):
            raise ValueError("boom")
        return note(ctx, config)
"""


@pytest.fixture
def plugins(tmp_path: Path) -> str:
    """The path of a file of plugins, to be followed by `:name`."""
    file = tmp_path / "plugins.py"
    file.write_text(textwrap.dedent(PLUGINS), "utf-8")
    return str(file)


@pytest.fixture
def journal() -> list[object]:
    """What the plugins did, in order."""
    return []


@pytest.fixture
async def loader(anyio_backend: str, journal: list[object]) -> AsyncIterator[Loader]:
    """A loader that knows no installed plugin and a small environment."""
    async with Context() as root:
        root.provide(JOURNAL, journal)
        options = LoaderOptions(
            entry_points=EntryPoints({}), environment={"A": "1"}, home="/h", cwd="/w"
        )
        await root.plugin(Loader, options)
        service = root.get(LOADER)
        assert service is not None
        yield service


@pytest.fixture
def rows(tmp_path: Path, plugins: str) -> Callable[[str], tuple[Row, ...]]:
    """Reads rows from YAML; `@name` stands for a plugin of the file."""

    def parse(text: str) -> tuple[Row, ...]:
        value = read_yaml(textwrap.dedent(text).replace("@", f"{plugins}:"), where="rows.yml")
        return parse_rows(value, where="rows.yml", base=str(tmp_path), origin="test")

    return parse
