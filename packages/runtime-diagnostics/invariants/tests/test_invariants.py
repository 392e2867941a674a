"""Selected checks run below their companion and leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from dsh_cordis import ConfigError, Context, Emit, FiberState, Service, ServiceKey
from dsh_invariants import INVARIANTS, Fail, InvariantError, Invariants

pytestmark = pytest.mark.anyio

MOVED = Emit[int]("test/moved")
LIMIT = ServiceKey["Limit"]("limit")


class Limit(Service):
    provides = LIMIT
    value = 10


@pytest.fixture
async def root() -> AsyncIterator[Context]:
    async with Context() as root:
        yield root


def positive(ctx: Context, fail: Fail) -> None:
    def check(value: int) -> None:
        if value < 0:
            fail(f"moved to {value}")

    ctx.on(MOVED, check)


async def mounted(root: Context, **config: object) -> Invariants:
    await root.plugin(Invariants, config)
    return root[INVARIANTS]


def effects(root: Context) -> int:
    return len(root.fiber.get_effects())


async def test_a_broken_promise_names_its_package(root: Context) -> None:
    invariants = await mounted(root)
    await invariants.register("dsh-moves", positive)
    root.emit(MOVED, 1)
    with pytest.raises(InvariantError) as raised:
        root.emit(MOVED, -1)
    assert str(raised.value) == 'invariant violated by "dsh-moves": moved to -1'
    assert (raised.value.code, raised.value.package) == ("INVARIANT", "dsh-moves")


@pytest.mark.parametrize(
    ("config", "checked"),
    [
        ({}, True),
        ({"enabled": False}, False),
        ({"enabled": False, "packageAllowlist": ["dsh-moves"]}, False),
        ({"packageAllowlist": ["^dsh-mo"]}, True),
        ({"packageAllowlist": ["mov"]}, True),
        ({"packageAllowlist": ["MOV"]}, False),
        ({"packageAllowlist": ["^moves"]}, False),
        ({"packageAllowlist": ["other", "moves$"]}, True),
        ({"packageBlocklist": ["other"]}, True),
        ({"packageBlocklist": ["mov"]}, False),
    ],
)
async def test_the_configuration_selects_packages(
    root: Context, config: dict[str, object], checked: bool
) -> None:
    invariants = await mounted(root, **config)
    assert invariants.selects("dsh-moves") is checked
    await invariants.register("dsh-moves", positive)
    assert root.reaches(MOVED, -1) is checked


async def test_the_blocklist_beats_the_allowlist(root: Context) -> None:
    invariants = await mounted(root, packageAllowlist=["moves"], packageBlocklist=["^dsh-"])
    assert not invariants.selects("dsh-moves")
    assert invariants.selects("moves")


@pytest.mark.parametrize("key", ["packageAllowlist", "packageBlocklist"])
@pytest.mark.parametrize(
    ("patterns", "because"),
    [
        ([""], "blank"),
        (["  "], "blank"),
        ([" a"], "blanks around"),
        (["a\n"], "blanks around"),
        (["a", "b", "a"], "twice"),
        (["("], "no regular expression"),
    ],
)
async def test_a_list_that_cannot_mean_what_it_says_fails(
    root: Context, key: str, patterns: list[str], because: str
) -> None:
    with pytest.raises(ConfigError, match=because) as raised:
        await root.plugin(Invariants, {key: patterns})
    assert raised.value.code == "INVALID_CONFIG"


@pytest.mark.parametrize("config", [{}, {"enabled": False}])
async def test_a_name_is_taken_even_if_its_package_is_not_selected(
    root: Context, config: dict[str, object]
) -> None:
    invariants = await mounted(root, **config)
    undo = await invariants.register("dsh-moves", positive)
    with pytest.raises(InvariantError) as raised:
        await invariants.register("dsh-moves", positive)
    assert str(raised.value) == 'invariants: package "dsh-moves" is already registered'
    assert raised.value.code == "ALREADY_REGISTERED"
    if (undone := undo()) is not None:
        await undone
    await invariants.register("dsh-moves", positive)


async def test_a_failed_async_installer_leaves_no_listener_and_its_name_is_reusable(
    root: Context,
) -> None:
    invariants = await mounted(root)
    before = effects(root)

    async def install(ctx: Context, fail: Fail) -> None:
        positive(ctx, fail)
        await asyncio.sleep(0)
        raise LookupError("nothing to check")

    with pytest.raises(LookupError):
        await invariants.register("dsh-moves", install)
    assert not root.reaches(MOVED, -1)
    assert effects(root) == before
    await invariants.register("dsh-moves", positive)
    assert root.reaches(MOVED, -1)


async def test_an_installer_is_awaited(root: Context) -> None:
    invariants = await mounted(root)

    async def install(ctx: Context, fail: Fail) -> None:
        await asyncio.sleep(0)
        positive(ctx, fail)

    await invariants.register("dsh-moves", install)
    assert root.reaches(MOVED, -1)


async def test_an_installer_waits_for_what_it_injects(root: Context) -> None:
    invariants = await mounted(root)
    installed = asyncio.Event()

    def install(ctx: Context, fail: Fail) -> None:
        limit = ctx[LIMIT].value
        ctx.on(MOVED, lambda value: None if value <= limit else fail(f"{value} is beyond {limit}"))
        installed.set()

    await invariants.register("dsh-moves", install, inject=[LIMIT])
    root.emit(MOVED, 11)
    limit = await root.plugin(Limit)
    await installed.wait()
    with pytest.raises(InvariantError, match="11 is beyond 10"):
        root.emit(MOVED, 11)
    await limit.dispose()
    root.emit(MOVED, 11)


async def test_checks_end_with_the_companion_that_registered_them(root: Context) -> None:
    await mounted(root)

    async def companion(ctx: Context, _config: object) -> None:
        await ctx[INVARIANTS].register("dsh-moves", positive)

    fiber = await root.plugin(companion, inject=[INVARIANTS])
    assert root.reaches(MOVED, -1)
    await fiber.dispose()
    assert not root.reaches(MOVED, -1)
    await root.plugin(companion, inject=[INVARIANTS])
    assert root.reaches(MOVED, -1)


async def test_a_companion_waits_for_the_service_and_unloads_with_it(root: Context) -> None:
    async def companion(ctx: Context, _config: object) -> None:
        await ctx[INVARIANTS].register("dsh-moves", positive)

    fiber = root.plugin(companion, inject=[INVARIANTS])
    assert fiber.state is FiberState.PENDING
    service = await root.plugin(Invariants)
    await fiber
    assert root.reaches(MOVED, -1)
    await service.dispose()
    assert fiber.state is FiberState.PENDING
    assert not root.reaches(MOVED, -1)
