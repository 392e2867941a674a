"""The kernel beside plain Python, in one process: `python kernel.py [ROW …] [--pairs N]`.

Ours and the plain form of the same work run in turn; a ratio is the median of the ratios of the
pairs. Loops are part of what is timed, on both sides.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pluggy
from dsh_cordis import (
    Bail,
    Context,
    Emit,
    Serial,
    Service,
    ServiceKey,
    SyncWaterfall,
    Waterfall,
)

NUMBERS = ServiceKey["Numbers"]("numbers")
READER = ServiceKey["Reader"]("reader")
SUM = Waterfall[int, int]("bench/sum")
SUM_SYNC = SyncWaterfall[int, int]("bench/sum-sync")
TOLD = Emit[int]("bench/told")
ASKED = Bail[int, int]("bench/asked")
ASKED_IN_TURN = Serial[int, int]("bench/asked-in-turn")


class Numbers(Service):
    provides: ClassVar = NUMBERS
    total = 0


class Reader(Service):
    """A service whose methods look up another: `self.ctx` is the caller's."""

    provides: ClassVar = READER
    inject: ClassVar = (NUMBERS,)

    def read(self, count: int) -> None:
        ctx = self.ctx
        for _ in repeat(None, count):
            ctx[NUMBERS]


class Bench:
    """Interleaved pairs of one run."""

    def __init__(self, pairs: int) -> None:
        self.pairs = pairs

    async def pair(self, ours: Callable[[], Any], plain: Callable[[], Any]) -> tuple[float, ...]:
        """Medians of ours, plain and their ratio; each returns the seconds it took."""
        await seconds(ours), await seconds(plain)
        both = [(await seconds(ours), await seconds(plain)) for _ in range(self.pairs)]
        return (
            statistics.median(a for a, _ in both),
            statistics.median(b for _, b in both),
            statistics.median(a / b for a, b in both),
        )


async def seconds(measure: Callable[[], Any]) -> float:
    gc.collect()
    took = measure()
    return await took if isinstance(took, Awaitable) else took


@contextmanager
def stopwatch(took: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    took.append(time.perf_counter() - began)


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# -- mounting -----------------------------------------------------------------------------------


class MountConfig(msgspec.Struct):
    amount: int = 1


class Adder:
    """A plugin that needs one service and keeps one effect."""

    name = "adder"
    inject = (NUMBERS,)
    Config = MountConfig

    @staticmethod
    def apply(ctx: Context, config: MountConfig) -> None:
        numbers = ctx[NUMBERS]
        numbers.total += config.amount


async def mounts(count: int) -> tuple[float, float]:
    """Seconds to mount that many plugins until each is active, and to unload them."""
    took: list[float] = []
    async with Context() as root:
        await root.plugin(Numbers)
        with stopwatch(took):
            fibers = [root.plugin(Adder) for _ in range(count)]
            for fiber in fibers:
                await fiber
        assert root[NUMBERS].total == count
        with stopwatch(took):
            await root.fiber.dispose()
    return took[0], took[1]


async def calls(count: int) -> float:
    """Seconds for as many plain calls of the same body with the same kind of configuration."""
    async with Context() as root:
        await root.plugin(Numbers)
        return timed(lambda: [Adder.apply(root, MountConfig()) for _ in range(count)])


async def mounted(count: int) -> float:
    return (await mounts(count))[0]


async def unloaded(count: int) -> float:
    return (await mounts(count))[1]


async def mount(b: Bench) -> Iterator[str]:
    ours, plain, ratio = await b.pair(lambda: mounted(1000), lambda: calls(1000))
    many, few, slope = await b.pair(lambda: mounted(4000), lambda: mounted(1000))
    gone, fewer, down = await b.pair(lambda: unloaded(4000), lambda: unloaded(1000))
    return iter(
        (
            f"mount 1,000 plugins, one service each | {ours * 1e3:.1f} ms | "
            f"{plain * 1e3:.2f} ms (the bodies called) | {ratio:.0f} | ",
            f"mounting, per plugin of 4,000 | {many / 4e-3:.1f} us | "
            f"{few / 1e-3:.1f} us (of 1,000) | {slope / 4:.2f} | 1 is linear",
            f"unloading, per plugin of 4,000 | {gone / 4e-3:.1f} us | "
            f"{fewer / 1e-3:.1f} us (of 1,000) | {down / 4:.2f} | 1 is linear",
        )
    )


# -- dispatch -----------------------------------------------------------------------------------


async def around(payload: int, next: Callable[[], Awaitable[int]]) -> int:
    return await next() + payload


def around_sync(payload: int, next: Callable[[], int]) -> int:
    return next() + payload


def around_all(payload: int) -> Awaitable[int]:
    def fifth() -> Awaitable[int]:
        return around(payload, innermost)

    def fourth() -> Awaitable[int]:
        return around(payload, fifth)

    def third() -> Awaitable[int]:
        return around(payload, fourth)

    def second() -> Awaitable[int]:
        return around(payload, third)

    return around(payload, second)


async def one(payload: int) -> int:
    return await two(payload) + payload


async def two(payload: int) -> int:
    return await three(payload) + payload


async def three(payload: int) -> int:
    return await four(payload) + payload


async def four(payload: int) -> int:
    return await five(payload) + payload


async def five(payload: int) -> int:
    return await innermost() + payload


async def innermost() -> int:
    return 0


async def waterfall(b: Bench) -> Iterator[str]:
    count = 100_000
    async with Context() as root:
        for _ in range(5):
            root.on(SUM, around)

        async def ours() -> float:
            began = time.perf_counter()
            for _ in repeat(None, count):
                await root.waterfall(SUM, 1, inner=innermost)
            return time.perf_counter() - began

        async def nested() -> float:
            """The same listeners, nested by somebody who knows them all beforehand."""
            began = time.perf_counter()
            for _ in repeat(None, count):
                await around_all(1)
            return time.perf_counter() - began

        async def wired() -> float:
            """Functions that call each other by name and take no `next`."""
            began = time.perf_counter()
            for _ in repeat(None, count):
                await one(1)
            return time.perf_counter() - began

        async def chained() -> float:
            """What one writes who does not know beforehand which functions there are."""
            began = time.perf_counter()
            for _ in repeat(None, count):
                rest = innermost
                for function in functions:
                    rest = partial(function, 1, rest)
                await rest()
            return time.perf_counter() - began

        functions = [around] * 5
        assert await root.waterfall(SUM, 1, inner=innermost) == await one(1) == 5
        assert await around_all(1) == 5
        lines: list[str] = []
        for name, floor, goal in (
            ("nested direct calls of the same listeners", nested, "2"),
            ("partials chained by hand", chained, ""),
            ("functions that call each other by name", wired, ""),
        ):
            took, other, ratio = await b.pair(ours, floor)
            lines.append(
                f"async waterfall, 5 listeners | {took / count * 1e9:.0f} ns | "
                f"{other / count * 1e9:.0f} ns ({name}) | {ratio:.2f} | {goal}"
            )
    return iter(lines)


class Hooks:
    """What the implementations below are called by in pluggy."""

    spec = pluggy.HookspecMarker("bench")
    implementation = pluggy.HookimplMarker("bench")

    @spec
    def told(self, payload: int) -> int | None: ...

    @spec(firstresult=True)
    def asked(self, payload: int) -> int | None: ...

    @spec(firstresult=True)
    def summed(self, payload: int) -> int | None: ...


class Silent:
    @Hooks.implementation
    def told(self, payload: int) -> None:
        return None

    @Hooks.implementation
    def asked(self, payload: int) -> None:
        return None

    @Hooks.implementation(wrapper=True)
    def summed(self, payload: int) -> Iterator[Any]:
        result = yield
        return result + payload


class Innermost:
    @Hooks.implementation(trylast=True)
    def summed(self, payload: int) -> int:
        return 0


def plugins() -> pluggy.PluginManager:
    manager = pluggy.PluginManager("bench")
    manager.add_hookspecs(Hooks)
    for _ in range(5):
        manager.register(Silent())
    manager.register(Innermost())
    return manager


def silent(payload: int) -> None:
    return None


async def dispatch(b: Bench) -> Iterator[str]:
    """Each mode that has a counterpart in pluggy: five hear it, none of them answers."""
    count = 100_000
    hook = plugins().hook
    async with Context() as root:
        for _ in range(5):
            root.on(TOLD, silent)
            root.on(ASKED, silent)
            root.on(ASKED_IN_TURN, silent)
            root.on(SUM_SYNC, around_sync)

        async def in_turn() -> float:
            began = time.perf_counter()
            for _ in repeat(None, count):
                await root.serial(ASKED_IN_TURN, 1)
            return time.perf_counter() - began

        def loop(call: Callable[[], object]) -> Callable[[], float]:
            def run() -> float:
                began = time.perf_counter()
                for _ in repeat(None, count):
                    call()
                return time.perf_counter() - began

            return run

        assert root.waterfall_sync(SUM_SYNC, 1, inner=lambda: 0) == hook.summed(payload=1) == 5
        asked = loop(lambda: hook.asked(payload=1))
        rows = (
            ("emit", loop(lambda: root.emit(TOLD, 1)), loop(lambda: hook.told(payload=1))),
            ("bail", loop(lambda: root.bail(ASKED, 1)), asked),
            ("serial", in_turn, asked),
            (
                "sync waterfall",
                loop(lambda: root.waterfall_sync(SUM_SYNC, 1, inner=lambda: 0)),
                loop(lambda: hook.summed(payload=1)),
            ),
        )
        lines: list[str] = []
        for name, ours, theirs in rows:
            took, other, ratio = await b.pair(ours, theirs)
            lines.append(
                f"{name}, 5 listeners | {took / count * 1e9:.0f} ns | "
                f"{other / count * 1e9:.0f} ns (pluggy) | {ratio:.2f} | "
            )
    return iter(lines)


# -- reading services ---------------------------------------------------------------------------


class Holder:
    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers


async def reads(b: Bench) -> Iterator[str]:
    count = 1_000_000
    found: list[tuple[Context, Reader]] = []

    def consumer(ctx: Context, _config: object) -> None:
        found.append((ctx, ctx[READER]))

    async with Context() as root:
        await root.plugin(Numbers)
        await root.plugin(Reader)
        await root.plugin(consumer, inject=(NUMBERS, READER))
        [(ctx, view)] = found
        attributes: Any = ctx
        names, holder = {NUMBERS: ctx[NUMBERS]}, Holder(ctx[NUMBERS])

        def by_key() -> None:
            for _ in repeat(None, count):
                ctx[NUMBERS]

        def by_name() -> None:
            for _ in repeat(None, count):
                attributes.numbers  # noqa: B018 - reading it is the work

        def by_dict() -> None:
            for _ in repeat(None, count):
                names[NUMBERS]

        def by_attribute() -> None:
            for _ in repeat(None, count):
                holder.numbers  # noqa: B018 - reading it is the work

        rows = (
            ("ctx[KEY]", by_key, by_dict, "dict look-up", "150 ns"),
            (
                "ctx[KEY] in a view's method",
                lambda: view.read(count),
                by_dict,
                "dict look-up",
                "150 ns",
            ),
            ("ctx.name", by_name, by_attribute, "attribute", "1,000 ns"),
        )
        lines: list[str] = []
        for name, ours, plain, what, most in rows:
            took, floor, ratio = await b.pair(lambda f=ours: timed(f), lambda f=plain: timed(f))
            lines.append(
                f"{name} | {took / count * 1e9:.0f} ns | {floor / count * 1e9:.0f} ns ({what}) | "
                f"{ratio:.1f} | {most}"
            )
    return iter(lines)


# -- booting rows -------------------------------------------------------------------------------


def base_rows() -> tuple[Any, ...]:
    from dsh_app_boot import compose, open_profile
    from dsh_cordis_loader import scan_entry_points

    with tempfile.TemporaryDirectory() as directory:
        home, points = Path(directory), scan_entry_points()
        profile = open_profile("headless", home=home, entry_points=points, create=True)
        profile = msgspec.structs.replace(profile, bundles=("dsh-base",))
        return compose(profile, home=home, entry_points=points, user_layers=False).rows


def synthetic_rows(count: int) -> tuple[Any, ...]:
    from dsh_cordis_loader import parse_rows

    rows = [
        {
            "id": f"row-{index}",
            "name": f"{Path(__file__).stem}:Adder",
            "config": {"amount": 1},
        }
        for index in range(count)
    ]
    rows.append({"id": "numbers", "name": f"{Path(__file__).stem}:Numbers"})
    return parse_rows(rows, where="bench", base=None, origin="bench")


async def booted(rows: tuple[Any, ...]) -> float:
    """Seconds from no tree to every row active, modules imported before."""
    from dsh_app_boot import boot
    from dsh_cordis_loader import scan_entry_points
    from dsh_launch_environment import LaunchEnvironment

    points = scan_entry_points()
    with tempfile.TemporaryDirectory() as directory:
        async with Context() as root:
            began = time.perf_counter()
            await boot(
                root,
                rows,
                home=Path(directory),
                environment=LaunchEnvironment({}),
                entry_points=points,
            )
            return time.perf_counter() - began


async def by_hand(rows: tuple[Any, ...]) -> float:
    """Seconds to mount the same plugins with the same configuration, without a loader."""
    async with Context() as root:
        began = time.perf_counter()
        fibers = [root.plugin(Numbers), *(root.plugin(Adder, {"amount": 1}) for _ in rows[1:])]
        for fiber in fibers:
            await fiber
        return time.perf_counter() - began


async def rows(b: Bench) -> Iterator[str]:
    base = base_rows()
    first = await booted(base)
    again, floor, _ = await b.pair(lambda: booted(base), lambda: booted(()))
    count = len(base)
    lines = [
        f"boot the {count} rows of dsh-base, per row | {again / count * 1e6:.0f} us | "
        f"{floor * 1e3:.1f} ms (all of a boot without rows) | | ",
        f"the same for the first time, with its imports | {first / count * 1e3:.1f} ms | | | ",
    ]
    once = synthetic_rows(250)
    took, plain, ratio = await b.pair(lambda: booted(once), lambda: by_hand(once))
    lines.append(
        f"boot 250 rows, per row | {took / 250 * 1e6:.0f} us | {plain / 250 * 1e6:.0f} us "
        f"(mounted by hand) | {ratio:.1f} | "
    )
    for times in (2, 4):
        more = synthetic_rows(250 * times)
        took, few, ratio = await b.pair(lambda rows=more: booted(rows), lambda: booted(once))
        lines.append(
            f"boot {250 * times} rows, per row | {took / 250 / times * 1e6:.0f} us | "
            f"{few / 250 * 1e6:.0f} us (of 250) | {ratio / times:.2f} | 1 is linear"
        )
    return iter(lines)


ROWS = {row.__name__: row for row in (mount, waterfall, dispatch, reads, rows)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--pairs", type=int, default=15)
    options = parser.parse_args()
    b = Bench(options.pairs)
    for name in options.rows or list(ROWS):
        for line in asyncio.run(ROWS[name](b)):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
