from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from dsh_app_boot import BootError, boot
from dsh_cordis import Context, FiberState
from dsh_cordis_loader import LOADER, Row, parse_rows, read_yaml
from dsh_home_paths import HOME_PATH
from dsh_launch_environment import LAUNCH_ENVIRONMENT, LaunchEnvironment

if TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.anyio

PLUGINS = """
    from dsh_cordis import ServiceKey
    from dsh_home_paths import HOME_PATH

    def saves(ctx, config):
        home = ctx[HOME_PATH].home
        home.joinpath("up").write_text(str(config))
        return lambda: home.joinpath("down").write_text("")

    saves.inject = (HOME_PATH,)

    def waits(ctx, config):
        raise AssertionError("never runs")

    waits.inject = (ServiceKey("never_provided"),)

    def broken(ctx, config):
        raise ValueError("boom")

    def quits(ctx, config):
        ctx.root.fiber.dispose()
"""


@pytest.fixture(autouse=True)
def _quiet_kernel(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "dsh.cordis")


@pytest.fixture
def plugins(site: Site, home: Path) -> str:
    home.mkdir()
    site.bundle("bt", "[]", PLUGINS)
    return "bt.plugins"


def rows(text: str) -> tuple[Row, ...]:
    return parse_rows(read_yaml(text, where="r"), where="r", base=None, origin="layer")


async def run(
    root: Context,
    site: Site,
    home: Path,
    text: str,
    prepare: Callable[[Context], None] | None = None,
) -> None:
    await boot(
        root,
        rows(text),
        home=home,
        environment=LaunchEnvironment({"A": "1"}),
        entry_points=site.entry_points,
        prepare=prepare,
        hint=lambda: "a hint",
    )


async def refusal(
    site: Site, home: Path, text: str, prepare: Callable[[Context], None] | None = None
) -> BootError:
    async with Context() as root:
        with pytest.raises(BootError) as caught:
            await run(root, site, home, text, prepare)
        assert root.get(LOADER) is None
    return caught.value


async def test_a_tree_boots_with_the_host_services(site: Site, home: Path, plugins: str):
    async with Context() as root:
        await run(root, site, home, f"[{{id: s, name: '{plugins}:saves', config: !expr env.A}}]")
        assert (home / "up").read_text() == "1"
        home_path, environment = root.get(HOME_PATH), root.get(LAUNCH_ENVIRONMENT)
        assert home_path is not None
        assert home_path.home == home
        assert environment is not None
        assert environment.get("A") == "1"
        loader = root.get(LOADER)
        assert loader is not None
        assert [e.fiber.state for e in loader.entries() if e.fiber] == [FiberState.ACTIVE]
    assert (home / "down").exists()


async def test_a_row_that_waits_is_fatal_and_named_with_its_service_and_layer(
    site: Site, home: Path, plugins: str
):
    error = await refusal(
        site, home, f"[{{id: w, name: '{plugins}:waits'}}, {{id: s, name: '{plugins}:saves'}}]"
    )
    assert error.code == "NOT_ACTIVATED"
    assert str(error) == (
        "1 entry did not activate\n"
        "  w (bt.plugins:waits): pending (waiting for service: never_provided) [layer]\n"
        "  a hint"
    )
    assert (home / "down").exists()


async def test_a_missing_module_fails_the_boot_before_any_row_starts(
    site: Site, home: Path, plugins: str
):
    error = await refusal(
        site, home, f"[{{id: s, name: '{plugins}:saves'}}, {{id: m, name: 'no_such:x'}}]"
    )
    assert error.code == "LOAD_FAILED"
    assert str(error).startswith(
        "plugin tree failed to load: failed to import loader entry m (no_such:x): "
        "'no_such:x': there is no module 'no_such'"
    )
    assert not (home / "up").exists()


async def test_a_failing_row_unwinds_the_others_and_shows_its_stack(
    site: Site, home: Path, plugins: str
):
    error = await refusal(
        site, home, f"[{{id: s, name: '{plugins}:saves'}}, {{id: b, name: '{plugins}:broken'}}]"
    )
    assert error.code == "LOAD_FAILED"
    assert "failed to apply loader entry b (bt.plugins:broken): ValueError: boom" in str(error)
    assert 'raise ValueError("boom")' in str(error)
    assert (home / "down").exists()


async def test_a_mistake_in_a_row_is_told_without_a_stack(site: Site, home: Path, plugins: str):
    error = await refusal(site, home, f"[{{id: s, name: '{plugins}:saves', config: !expr nope}}]")
    assert "Traceback" not in str(error)
    assert "unknown name 'nope'" in str(error)


async def test_a_failing_preparation_is_named(site: Site, home: Path, plugins: str):
    def prepare(ctx: Context) -> None:
        raise OSError("no slot")

    error = await refusal(site, home, f"[{{id: s, name: '{plugins}:saves'}}]", prepare)
    assert error.code == "PREPARATION_FAILED"
    assert str(error).startswith("host preparation failed: no slot")
    assert not (home / "up").exists()


async def test_a_row_that_disposes_the_root_ends_the_boot_quietly(
    site: Site, home: Path, plugins: str
):
    async with Context() as root:
        await run(
            root,
            site,
            home,
            f"[{{id: q, name: '{plugins}:quits'}}, {{id: w, name: '{plugins}:waits'}}]",
        )
        await root.fiber.dispose()
        assert root.get(LOADER) is None
