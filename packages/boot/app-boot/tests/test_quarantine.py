"""What fails of the user's is set aside; what fails of the installation's ends the boot."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from dsh_app_boot import (
    QUARANTINE,
    BootError,
    Composition,
    Quarantine,
    Watchdog,
    activation_timeout_ms,
    boot,
    compose,
    join_site,
    open_profile,
    python_tag,
)
from dsh_cordis import Context, ServiceKey
from dsh_cordis_loader import LOADER, walk_rows
from dsh_launch_environment import LaunchEnvironment

if TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.anyio

JOURNAL = ServiceKey[list[list[str]]]("journal")
RELEASE = ServiceKey[asyncio.Event]("release")

PLUGINS = """
    from dsh_cordis import ServiceKey
    from dsh_cordis_loader import LOADER

    JOURNAL = ServiceKey("journal")

    def runs(ctx, config): pass

    def broken(ctx, config): raise ValueError("boom")

    def picky(ctx, config):
        if config == "bad": raise ValueError("no good")

    def gives(ctx, config): ctx.provide(ServiceKey(config), object())

    def wants(ctx, config): pass
    wants.inject = (ServiceKey("thing"),)

    async def hangs(ctx, config): await ctx.get(ServiceKey("release")).wait()

    def settles(ctx, config):
        async def look():
            await ctx[LOADER].settled()
            ctx.get(JOURNAL).append([e.id for e in ctx[LOADER].entries() if e.fiber])
        ctx.spawn(look)
    settles.inject = (LOADER,)
"""

BUNDLE = """
- insert:
    - {id: thing, name: "low.plugins:gives", config: thing}
    - {id: user-of-thing, name: "low.plugins:wants"}
    - {id: picky, name: "low.plugins:picky", config: good}
"""


@pytest.fixture(autouse=True)
def _quiet_kernel(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "dsh.cordis")


class Booted:
    """A home whose profile stands on the bundle `low`."""

    def __init__(self, site: Site, home: Path) -> None:
        self.site, self.home = site, home
        self.profile = home / "profiles" / "app"
        self.profile.mkdir(parents=True)
        self.manifest(["low"])
        self.patch = self.profile / "cordis.patch.yml"
        self.home_patch = home / "cordis.patch.yml"
        self.journal: list[list[str]] = []
        site.bundle("low", BUNDLE, PLUGINS)

    def manifest(self, bundles: list[str]) -> None:
        text = f"[tool.dsh.profile]\nbundles = {bundles!r}\n"
        (self.profile / "pyproject.toml").write_text(text)

    def compose(self, **options: bool) -> Composition:
        points = self.site.entry_points
        profile = open_profile("app", home=self.home, entry_points=points)
        points = join_site(profile, points)
        return compose(profile, home=self.home, entry_points=points, tolerant=True, **options)

    @asynccontextmanager
    async def run(
        self,
        *,
        strict: bool = False,
        timeout_ms: int = 10_000,
        blocked: Callable[[tuple[str, ...], str], None] | None = None,
    ) -> AsyncIterator[tuple[Quarantine, list[str]]]:
        """Boot; what is set aside, and the ids of what runs."""
        composition = self.compose()
        quarantine = Quarantine(composition, strict=strict)
        release = asyncio.Event()

        def prepare(ctx: Context) -> None:
            ctx.provide(JOURNAL, self.journal)
            ctx.provide(RELEASE, release)

        async with Context() as root:
            await boot(
                root,
                composition.rows,
                home=self.home,
                environment=LaunchEnvironment({}),
                entry_points=self.site.entry_points,
                prepare=prepare,
                quarantine=quarantine,
                activation_timeout_ms=timeout_ms,
                blocked=blocked,
            )
            assert root.get(QUARANTINE) is quarantine
            loader = root.get(LOADER)
            assert loader is not None
            yield quarantine, [entry.id for entry in loader.entries() if entry.fiber]
            release.set()


LOW = ["thing", "user-of-thing", "picky"]


@pytest.fixture
def app(site: Site, home: Path) -> Booted:
    return Booted(site, home)


async def refusal(app: Booted, *, strict: bool = False) -> BootError:
    with pytest.raises(BootError) as caught:
        async with app.run(strict=strict):
            pass
    return caught.value


async def test_a_row_of_the_user_that_fails_is_left_out_and_told(app: Booted):
    app.patch.write_text('- insert: [{id: b, name: "low.plugins:broken"}]\n')
    app.home_patch.write_text('- insert: [{id: ok, name: "low.plugins:runs"}]\n')
    async with app.run() as (quarantine, running):
        (row,) = quarantine.rows
        assert running == [*LOW, "ok"]
    assert (row.entry_id, row.layer, row.reverted) == ("b", str(app.patch), False)
    assert "ValueError: boom (at " in row.reason
    assert row.remedy == "remove it with: dsh plugin --profile app remove b"
    assert str(row).startswith("row 'b' (low.plugins:broken) is left out: ValueError: boom")


async def test_rows_that_wait_for_what_is_left_out_are_left_out_too(app: Booted):
    app.patch.write_text(
        '- insert: [{id: w, name: "low.plugins:wants", inject: [gone]},'
        ' {id: g, name: "low.plugins:hangs", config: gone}]\n'
    )
    async with app.run(timeout_ms=50) as (quarantine, running):
        assert running == LOW
    assert [(row.entry_id, row.stuck) for row in quarantine.rows] == [("g", True), ("w", False)]
    assert quarantine.stuck
    assert quarantine.rows[0].reason == "it was not active after 50 ms"
    assert quarantine.rows[1].reason == "it waits for the service gone"


async def test_a_failing_row_of_a_bundle_is_fatal(app: Booted):
    app.site.bundle("low", '- insert: [{id: b, name: "low.plugins:broken"}]\n', PLUGINS)
    app.patch.write_text('- insert: [{id: ok, name: "low.plugins:runs"}]\n')
    error = await refusal(app)
    assert error.code == "LOAD_FAILED"
    assert "failed to apply loader entry b" in str(error)


async def test_a_row_of_a_bundle_runs_without_the_changes_that_break_it(app: Booted):
    app.patch.write_text("- {id: picky, config: fine}\n")
    app.home_patch.write_text("- {id: picky, config: bad}\n")
    async with app.run() as (quarantine, running):
        assert running == LOW
    (row,) = quarantine.rows
    assert (row.layer, row.reverted) == (str(app.home_patch), True)
    assert row.remedy == "remove them with: dsh plugin --profile app remove picky"


@pytest.mark.parametrize("first", [True, False])
async def test_of_two_providers_the_one_of_the_user_goes(app: Booted, first: bool):
    mine = '- insert: [{id: mine, name: "low.plugins:gives", config: thing}]\n'
    if first:
        # Below the bundle's in the list, yet mounted before it.
        app.site.bundle(
            "low",
            BUNDLE.replace("config: thing", "config: thing, intercept: {loader: {await: true}}"),
            PLUGINS,
        )
    app.patch.write_text(mine)
    async with app.run() as (quarantine, running):
        assert sorted(running) == sorted(LOW)
    (row,) = quarantine.rows
    assert row.entry_id == "mine"
    assert "'thing'" in row.reason or '"thing"' in row.reason


async def test_a_bundle_row_that_the_user_switched_off_runs_where_it_is_missed(app: Booted):
    app.patch.write_text("- {id: thing, disabled: true}\n- {id: picky, disabled: true}\n")
    async with app.run() as (quarantine, running):
        assert running == LOW
    assert {row.entry_id for row in quarantine.rows} == {"thing", "picky"}
    assert all("'user-of-thing' does not start otherwise" in row.reason for row in quarantine.rows)


async def test_a_failing_bundle_row_that_nothing_explains_starts_without_any_row_of_the_user(
    app: Booted,
):
    plugin = app.profile / "spoils.py"
    plugin.write_text(
        "from dsh_cordis import Internal\n"
        "def refuse(*args): raise RuntimeError('nothing is good enough')\n"
        "def apply(ctx, config): ctx.on(Internal.CONFIG, refuse)\n"
    )
    app.site.bundle(
        "low", BUNDLE.replace("good", "good, intercept: {loader: {await: true}}"), PLUGINS
    )
    app.patch.write_text(
        '- insert: [{id: s, name: ./spoils.py}, {id: ok, name: "low.plugins:runs"}]\n'
    )
    async with app.run() as (quarantine, running):
        assert sorted(running) == sorted(LOW)
    assert {"s", "ok"} <= {row.entry_id for row in quarantine.rows}


async def test_only_the_failing_row_of_a_group_goes(app: Booted):
    app.patch.write_text(
        "- insert:\n    - id: g\n      name: cordis:group\n      config:\n"
        '        - {id: bad, name: "low.plugins:broken"}\n'
        '        - {id: good, name: "low.plugins:runs"}\n'
    )
    async with app.run() as (quarantine, running):
        assert running == [*LOW, "g", "good"]
    assert [row.entry_id for row in quarantine.rows] == ["bad"]


async def test_an_include_goes_with_the_row_of_its_file_that_fails(app: Booted):
    (app.profile / "more.yml").write_text('- {id: bad, name: "low.plugins:broken"}\n')
    app.patch.write_text("- insert: [{id: i, name: cordis:include, config: {path: more.yml}}]\n")
    async with app.run() as (quarantine, running):
        assert running == LOW
    (row,) = quarantine.rows
    assert row.entry_id == "i"
    assert row.reason.startswith("its row 'i:bad': ValueError: boom")


async def test_a_strict_start_is_refused_with_what_would_have_been_set_aside(app: Booted):
    app.patch.write_text(
        "- {id: picky, config: bad}\n"
        '- insert: [{id: b, name: "low.plugins:broken"}, {id: w, name: "low.plugins:wants",'
        " inject: [never]}]\n"
    )
    composition = app.compose()
    quarantine = Quarantine(composition, strict=True)
    async with Context() as root:
        with pytest.raises(BootError) as caught:
            await boot(
                root,
                composition.rows,
                home=app.home,
                environment=LaunchEnvironment({}),
                entry_points=app.site.entry_points,
                quarantine=quarantine,
            )
    assert caught.value.code == "REFUSED"
    assert "ValueError: boom" in str(caught.value)
    told = {row.entry_id: str(row) for row in quarantine.rows}
    assert told["picky"].startswith("row 'picky' (low.plugins:picky) fails with the changes of ")
    assert told["b"].startswith("row 'b' (low.plugins:broken) fails: ValueError: boom")
    assert told["w"].endswith("remove it with: dsh plugin --profile app remove w")
    app.patch.write_text("[]\n")
    async with app.run(strict=True) as (quarantine, running):
        assert (quarantine.rows, running) == ((), LOW)


async def test_who_waits_for_the_tree_to_settle_sees_what_stays_of_it(app: Booted):
    app.site.bundle("low", BUNDLE + '    - {id: s, name: "low.plugins:settles"}\n', PLUGINS)
    app.patch.write_text(
        '- {id: picky, config: bad}\n- insert: [{id: b, name: "low.plugins:broken"}]\n'
    )
    async with app.run():
        async with asyncio.timeout(10):
            while not app.journal:
                await asyncio.sleep(0)
    assert app.journal == [[*LOW, "s"]]


async def test_what_was_left_out_stays_so_until_it_is_written_otherwise(app: Booted):
    app.patch.write_text(
        '- {id: picky, config: bad}\n- insert: [{id: b, name: "low.plugins:broken"}]\n'
    )
    async with app.run() as (quarantine, _):
        same = quarantine.admitted(app.compose().rows)
        assert [row.id for row in same] == LOW
        assert same[2].config == "good"
        app.patch.write_text(
            '- {id: picky, config: x}\n- insert: [{id: b, name: "low.plugins:runs"}]\n'
        )
        other = quarantine.admitted(app.compose().rows)
    assert [(row.id, row.config) for row in other[2:]] == [("picky", "x"), ("b", None)]


async def test_rows_of_a_bundle_in_the_profiles_own_site_are_the_users(app: Booted, monkeypatch):
    own = app.profile / "sites" / f"x-{python_tag()}"
    _install(own, '- insert: [{id: far, name: "far_away:broken"}]\n')
    (app.profile / "sites" / "current").symlink_to(own.name)
    monkeypatch.setattr(sys, "path", [*sys.path])
    app.manifest(["low", "far-away"])
    async with app.run() as (quarantine, running):
        assert running == LOW
    (row,) = quarantine.rows
    assert (row.entry_id, row.layer) == ("far", "far-away")
    assert row.remedy == "remove it with: dsh plugin --profile app remove far-away"
    (own / "far_away" / "cordis.patch.yml").write_text("\t- x\n")
    (problem,) = app.compose().problems
    assert problem.layer == "far-away"
    assert "dsh plugin --profile app sync" in problem.remedy
    assert "dsh plugin --profile app remove far-away" in problem.remedy


def _install(directory: Path, patch: str) -> None:
    package = directory / "far_away"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("def broken(ctx, config): raise ValueError('far')\n")
    (package / "cordis.patch.yml").write_text(patch)
    info = directory / "far_away-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: far-away\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dsh.bundles]\nfar-away = far_away\n")


async def test_what_holds_up_the_loop_is_named_with_its_line(app: Booted):
    free = threading.Event()
    heard: list[tuple[tuple[str, ...], str]] = []

    def blocked(starting: tuple[str, ...], text: str) -> None:
        heard.append((starting, text))
        free.set()

    plugin = app.profile / "blocks.py"
    plugin.write_text("def apply(ctx, config):\n    config['free'].wait(10)\n")
    root = Context()
    async with root:
        await boot(root, (), home=app.home, environment=LaunchEnvironment({}))
        loader = root.get(LOADER)
        assert loader is not None
        rows = app.compose().rows
        app.patch.write_text("- insert: [{id: s, name: ./blocks.py}]\n")
        (row,) = [row for row in app.compose().rows if row not in rows]
        row = msgspec.structs.replace(row, config={"free": free})
        with Watchdog(loader, 20, blocked):
            await loader.start_rows((row,))
    ((starting, text),) = heard
    assert starting == ("s",)
    assert text == f"row 's' has held up the start for 0.02 s (at {plugin}:2)"


async def test_a_loop_that_answers_is_left_alone(app: Booted):
    heard: list[object] = []
    app.patch.write_text('- insert: [{id: h, name: "low.plugins:hangs"}]\n')
    async with app.run(timeout_ms=50, blocked=lambda *args: heard.append(args)) as (_, running):
        assert running == LOW
    assert heard == []


@pytest.mark.parametrize("text", ["abc", "0", "-1", "1.5", "1e3", "٣"])
def test_a_timeout_that_is_none_is_refused(text: str):
    with pytest.raises(BootError, match="whole milliseconds") as caught:
        activation_timeout_ms({"DSH_ACTIVATION_TIMEOUT_MS": text})
    assert caught.value.code == "INVALID_TIMEOUT"


async def test_a_timeout_of_ages_is_one(app: Booted):
    ages = activation_timeout_ms({"DSH_ACTIVATION_TIMEOUT_MS": "9" * 30})
    async with app.run(timeout_ms=ages, blocked=lambda *_: None) as (_, running):
        assert running == LOW
    assert activation_timeout_ms({"DSH_ACTIVATION_TIMEOUT_MS": " "}) == 30_000


@pytest.mark.parametrize("place", ["home", "profile"])
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda file: file.write_bytes(b""), "write [] for none"),
        (lambda file: file.write_text("- insert:\n\t- {id: a}\n"), ":2:1"),
        (lambda file: file.write_text("- {id: a, na"), ":1:"),
        (lambda file: file.mkdir(), "Is a directory"),
        (os.mkfifo, "no regular file"),
        (lambda file: file.symlink_to(file.name), "symbolic links"),
        (lambda file: file.symlink_to("/dev/zero"), "no regular file"),
        (lambda file: file.write_text("- {id: g, config: {a: 1}}\n"), "expected a list of rows"),
    ],
)
async def test_a_patch_file_that_cannot_be_used_is_left_out_whole(
    app: Booted, place: str, make: Callable[[Path], object], said: str
):
    low = BUNDLE + '    - {id: g, name: "cordis:group", config: []}\n'
    app.site.bundle("low", low, PLUGINS)
    file = app.home_patch if place == "home" else app.patch
    other = app.patch if place == "home" else app.home_patch
    other.write_text("- {id: picky, config: fine}\n")
    make(file)
    (problem,) = app.compose().problems
    assert problem.layer == str(file)
    assert said in problem.message
    assert "correct it" in problem.remedy
    rows = {row.id: row for row in walk_rows(app.compose().rows)}
    assert rows["picky"].config == "fine"
    assert app.compose(user_layers=False).problems == ()
