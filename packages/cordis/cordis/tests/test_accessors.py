"""Attributes beside services, setting, wrapped reads, and the registry."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from dsh_cordis import (
    Context,
    CordisError,
    Finding,
    Internal,
    Service,
    ServiceAccessError,
    ServiceKey,
)

pytestmark = pytest.mark.anyio

FOO = ServiceKey[str]("foo")


class Clock(Service):
    provides = ServiceKey["Clock"]("clock")

    def __init__(self, ctx: Context, config: object = None) -> None:
        super().__init__(ctx, config)
        self.now = 0
        self.calls: list[str] = []

    def after(self, what: str) -> None:
        self.calls.append(what)
        self.ctx.effect(lambda: lambda: self.calls.remove(what))

    def __call__(self, by: int) -> int:
        self.now += by
        return self.now


def plugin(run, *, inject=()):
    def body(ctx: Context, _config: object):
        return run(ctx)

    body.inject = inject
    return body


async def test_accessor_is_computed_for_the_context_that_reads_and_unwinds(root: Context):
    fiber = await root.plugin(
        plugin(lambda ctx: ctx.accessor("whose", lambda reader: reader.meta("agent")))
    )
    assert root.extend(agent="a").whose == "a"
    assert root.whose is None
    (body,) = fiber.get_effects()
    assert [one.label for one in body.children] == ['ctx.accessor("whose")']
    await fiber.dispose()
    assert root.extend(agent="a").whose is None
    root.accessor("whose", lambda _reader: "again")
    assert root.whose == "again"


async def test_own_attribute_wins_over_an_accessor(root: Context):
    root.accessor("agent", lambda _reader: "computed")
    assert root.extend(agent="own").agent == "own"


async def test_name_is_an_accessor_or_a_service_and_not_both(root: Context):
    root.accessor("foo", lambda _reader: 1)
    for attempt in (
        lambda: root.accessor("foo", lambda _reader: 2),
        lambda: root.provide(FOO, "x"),
        lambda: root.isolate(FOO).provide(FOO, "x"),
    ):
        with pytest.raises(CordisError) as caught:
            attempt()
        assert str(caught.value) == 'property "foo" is already declared as accessor'
        assert caught.value.code == "ACCESSOR_EXISTS"
    root.isolate(Clock.provides).provide(Clock.provides, Clock(root))
    for taken in ("clock", "emit"):
        with pytest.raises(CordisError) as caught:
            root.accessor(taken, lambda _reader: 1)
        assert caught.value.code == "ACCESSOR_EXISTS"
    assert len(root.fiber.get_effects()) == 2


async def test_mixed_in_method_knows_its_caller_and_unwinds_with_the_service(root: Context):
    class Mixing(Clock):
        def start(self):
            self.ctx.mixin(Clock.provides, ["after"])
            self.ctx.mixin(Clock.provides, {"now": "time_now"})

    service = await root.plugin(Mixing)
    caller = await root.plugin(plugin(lambda ctx: ctx.after("x"), inject=(Clock.provides,)))
    clock = root[Clock.provides]
    assert clock.calls == ["x"]
    root.set(ServiceKey[int]("time_now"), 5)
    assert clock.now == root.time_now == 5
    await caller.dispose()
    assert clock.calls == []
    with pytest.raises(ServiceAccessError, match='cannot get property "clock" without inject'):
        await root.plugin(plugin(lambda ctx: ctx.after("y")))
    assert [one.label for one in service.get_effects()][-1] == 'ctx.mixin("clock")'
    await service.dispose()
    assert root.time_now is None


async def test_mixin_is_all_or_nothing(root: Context):
    root.accessor("now", lambda _reader: 1)
    with pytest.raises(CordisError) as caught:
        root.mixin(Clock.provides, ["after", "now"])
    assert caught.value.code == "ACCESSOR_EXISTS"
    root.accessor("after", lambda _reader: 2)


async def test_set_replaces_the_value_of_its_owner_without_telling_dependents(root: Context):
    ran: list[str] = []
    owner = await root.plugin(plugin(lambda ctx: ctx.provide(FOO, "one")))
    reader = await root.plugin(plugin(lambda ctx: ran.append(ctx[FOO]), inject=(FOO,)))
    owner.ctx.set(FOO, "two")
    assert ran == ["one"]
    assert reader.ctx[FOO] == root[FOO] == reader.ctx.foo == "two"
    with pytest.raises(CordisError, match='cannot set property "foo" in multiple fibers') as caught:
        reader.ctx.set(FOO, "three")
    assert caught.value.code == "NOT_OWNER"
    with pytest.raises(CordisError, match='cannot set property "bar" without provide') as caught:
        root.set(ServiceKey[str]("bar"), "x")
    assert caught.value.code == "NOT_PROVIDED"


async def test_set_gives_readers_new_views(root: Context):
    first, second = Clock(root), Clock(root)
    root.provide(Clock.provides, first)
    reader = await root.plugin(plugin(lambda _ctx: None, inject=(Clock.provides,)))
    old = reader.ctx[Clock.provides]
    root.set(Clock.provides, second)
    new = reader.ctx[Clock.provides]
    assert new is not old
    new(3)
    assert (first.now, second.now) == (0, 3)


async def test_set_of_an_accessor_calls_its_setter_or_is_refused(root: Context):
    told: list[tuple[object, str]] = []
    root.accessor("foo", lambda _reader: "x", lambda ctx, value: told.append((ctx, value)))
    root.set(FOO, "y")
    assert told == [(root, "y")]
    root.accessor("fixed", lambda _reader: 1)
    with pytest.raises(CordisError) as caught:
        root.set(ServiceKey[int]("fixed"), 2)
    assert caught.value.code == "NOT_PROVIDED"


async def test_get_with_inactive_ignores_the_state_of_the_provider(root: Context):
    seen: list[object] = []

    def body(ctx: Context) -> None:
        ctx.provide(FOO, "x")
        seen.extend([ctx.get(FOO), ctx.get(FOO, inactive=True), root.get(FOO, inactive=True)])

    await root.plugin(plugin(body))
    assert seen == [None, "x", "x"]


async def test_listener_of_get_wraps_reads_of_plugins_in_both_forms(root: Context):
    asked: list[tuple[Context, str]] = []
    fiber = await root.plugin(plugin(lambda _ctx: None))
    root.provide(FOO, "x")
    assert fiber.ctx[FOO] == "x"  # read before: remembered

    def wrap(ctx: Context, name: str, proceed) -> object:
        asked.append((ctx, name))
        try:
            return f"<{proceed()}>"
        except ServiceAccessError:
            return "instead"

    listening = root.on(Internal.GET, wrap)
    assert (fiber.ctx[FOO], fiber.ctx.foo, fiber.ctx.bar) == ("<x>", "<x>", "instead")
    assert asked == [(fiber.ctx, "foo"), (fiber.ctx, "foo"), (fiber.ctx, "bar")]
    assert root[FOO] == "x"
    listening()
    assert fiber.ctx[FOO] == fiber.ctx.foo == "x"


async def test_listener_of_get_may_read_services_itself(root: Context):
    root.provide(FOO, "x")

    def hearer(ctx: Context) -> None:
        ctx.on(Internal.GET, lambda _reader, _name, proceed: f"{ctx[FOO]}{proceed()}")

    await root.plugin(plugin(hearer))
    fiber = await root.plugin(plugin(lambda _ctx: None))
    assert fiber.ctx[FOO] == "xx"


async def test_listener_of_set_wraps_and_may_veto(root: Context):
    told: list[object] = []
    fiber = await root.plugin(plugin(lambda ctx: ctx.provide(FOO, "one")))

    def wrap(ctx: Context, name: str, value: object, proceed) -> None:
        told.append((ctx, name, value))
        if value != "no":
            proceed()

    root.on(Internal.SET, wrap)
    fiber.ctx.set(FOO, "no")
    assert root[FOO] == "one"
    fiber.ctx.set(FOO, "two")
    assert root[FOO] == "two"
    assert told == [(fiber.ctx, "foo", "no"), (fiber.ctx, "foo", "two")]


async def test_remembered_reads_end_with_the_right_to_them(root: Context):
    provider = await root.plugin(plugin(lambda ctx: ctx.provide(FOO, "x")))
    reader = await root.plugin(plugin(lambda _ctx: None, inject=(FOO,)))
    place = reader.ctx.extend()
    for ctx in (reader.ctx, place):
        assert ctx[FOO] == ctx.foo == "x"
    await provider.dispose()
    for ctx in (reader.ctx, place):
        with pytest.raises(ServiceAccessError):
            ctx[FOO]
        with pytest.raises(ServiceAccessError):
            ctx.foo  # noqa: B018 - reading it raises
    with pytest.raises(ServiceAccessError):
        root[FOO]


async def test_remembered_reads_end_with_the_plugin_that_had_the_right(root: Context):
    await root.plugin(plugin(lambda ctx: ctx.provide(FOO, "x")))
    reader = await root.plugin(plugin(lambda _ctx: None, inject=(FOO,)))
    place = reader.ctx.extend()
    assert place[FOO] == "x"
    await reader.dispose()
    with pytest.raises(ServiceAccessError):
        place[FOO]


async def test_conditional_services_are_asked_at_each_read_of_the_root(root: Context):
    open_now = [True]
    root.plugin(
        plugin(lambda ctx: ctx.provide(FOO, "x", available=lambda _reader: open_now[0]) and None)
    )
    await root.plugin(plugin(lambda _ctx: None))
    assert root[FOO] == "x"
    open_now[0] = False
    with pytest.raises(ServiceAccessError):
        root[FOO]


async def test_what_was_provided_is_not_kept_by_who_read_it(root: Context):
    class Value:
        pass

    key = ServiceKey[Value]("value")
    value = Value()
    ghost = weakref.ref(value)
    provided = root.provide(key, value)
    assert root[key] is root.value is value
    provided()
    del value, provided
    gc.collect()
    assert ghost() is None


async def test_many_short_readers_of_one_service_leave_nothing(root: Context):
    await root.plugin(Clock)
    ghosts = []
    for _ in range(300):
        reader = root.extend()
        reader[Clock.provides](1)
        ghosts.append(weakref.ref(reader))
        del reader
    gc.collect()
    assert root[Clock.provides].now == 300
    assert [ghost for ghost in ghosts if ghost() is not None] == []


async def test_service_may_be_callable(root: Context):
    await root.plugin(Clock)
    seen: list[int] = []
    await root.plugin(
        plugin(lambda ctx: seen.append(ctx[Clock.provides](2)), inject=(Clock.provides,))
    )
    assert seen == [2]


async def test_service_has_nothing_to_diagnose_by_default_and_may_say_more(root: Context):
    class Sick(Clock):
        provides = ServiceKey["Sick"]("sick")

        async def diagnose(self):
            yield Finding("error", "clock", "it stands still", remedy="wind it")

    await root.plugin(Clock)
    await root.plugin(Sick)
    assert list(root[Clock.provides].diagnose()) == []
    found = [finding async for finding in root[Sick.provides].diagnose()]
    assert found == [Finding("error", "clock", "it stands still", "wind it")]


async def test_registry_lists_plugins_with_their_fibers_and_deletes_them(root: Context):
    def body(_ctx: Context, _config: object) -> None: ...

    class Unhashable:
        __hash__ = None

        def apply(self, _ctx: Context, _config: object) -> None: ...

    form = Unhashable()
    one, two = root.plugin(body), root.extend().plugin(body)
    other = root.plugin(form)
    await asyncio.sleep(0)
    registry = root.extend().registry
    assert registry is root.registry
    assert [*registry] == [body, form]
    assert registry[body].plugin is body
    assert registry[body].fibers == (one.fiber, two.fiber)
    await registry.delete(body)
    assert (one.state, two.state, other.state) == (4, 4, 2)
    assert body not in registry
    assert len(registry) == 1
    await registry.delete(body)
    with pytest.raises(KeyError):
        registry[body]


async def test_deleting_a_plugin_waits_for_all_its_overlapping_cleanups(root: Context):
    barrier = asyncio.Barrier(2)

    def body(_ctx: Context, _config: object):
        return barrier.wait

    await root.plugin(body)
    await root.plugin(body)
    await root.registry.delete(body)
    assert root.fiber.get_effects() == ()


async def test_bound_method_is_one_plugin_however_often_it_is_read(root: Context):
    class Thing:
        def run(self, _ctx: Context, _config: object) -> None: ...

    thing = Thing()
    fiber = await root.plugin(thing.run)
    assert root.registry[thing.run].fibers == (fiber,)
    assert Thing().run not in root.registry


async def test_registry_lists_the_services_of_active_plugins(root: Context):
    root.isolate(FOO).provide(FOO, "isolated")
    fiber = await root.plugin(Clock)
    listed = root.registry.services()
    assert [(one.name, one.fiber) for one in listed] == [("foo", root.fiber), ("clock", fiber)]
    assert type(listed[1].value) is Clock
    await fiber.dispose()
    assert [one.name for one in root.registry.services()] == ["foo"]
