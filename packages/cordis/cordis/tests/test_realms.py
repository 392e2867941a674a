"""Realms: one name, several services; and settings for a service, by place."""

from __future__ import annotations

import pytest
from dsh_cordis import Context, CordisError, Internal, Service, ServiceAccessError, ServiceKey

pytestmark = pytest.mark.anyio

FOO = ServiceKey[str]("foo")
BAR = ServiceKey[str]("bar")


def providing(value: str, key: ServiceKey[str] = FOO):
    def body(ctx: Context, _config: object) -> None:
        ctx.provide(key, value)

    return body


def reading(seen: list[str], *, inject=(FOO,)):
    def body(ctx: Context, _config: object) -> None:
        seen.append(ctx[FOO])

    body.inject = inject
    return body


async def test_same_name_in_two_realms_works(root: Context):
    root.provide(FOO, "here")
    elsewhere = root.isolate(FOO)
    elsewhere.provide(FOO, "there")
    assert (root[FOO], elsewhere[FOO]) == ("here", "there")
    assert (root.foo, elsewhere.foo) == ("here", "there")
    with pytest.raises(CordisError) as caught:
        root.isolate(FOO, "x").provide(FOO, "one") and root.isolate(FOO, "x").provide(FOO, "two")
    assert caught.value.code == "SERVICE_EXISTS"


async def test_isolation_keeps_fiber_and_attributes_and_moves_one_name(root: Context):
    root.provide(BAR, "bar")
    place = root.extend(agent="a").isolate(FOO)
    assert place.fiber is root.fiber
    assert place.meta("agent") == "a"
    assert place[BAR] == "bar"
    assert place.root is root


async def test_sibling_in_the_same_isolated_group_sees_the_service_and_the_root_does_not(
    root: Context,
):
    seen: list[str] = []
    children = []

    def group(ctx: Context, _config: object) -> None:
        children.extend([ctx.plugin(providing("inside")), ctx.plugin(reading(seen))])

    await root.isolate(FOO).plugin(group)
    outside = root.plugin(reading(seen))
    for child in children:
        await child
    assert seen == ["inside"]
    assert root.get(FOO) is None
    assert outside.state == 0


async def test_private_realms_are_apart_and_equal_labels_join(root: Context):
    root.isolate(FOO).provide(FOO, "private")
    assert root.isolate(FOO).get(FOO) is None
    root.isolate(FOO, "world").provide(FOO, "shared")
    assert root.isolate(FOO, "world").get(FOO) == "shared"
    assert root.isolate(FOO, "other").get(FOO) is None
    assert root.isolate(BAR, "world").get(BAR) is None


async def test_a_label_that_nobody_uses_any_more_starts_empty(root: Context):
    root.isolate(FOO, "world").provide(FOO, "old")()
    assert root.isolate(FOO, "world").get(FOO) is None
    root.isolate(FOO, "world").provide(FOO, "new")
    assert root.isolate(FOO, "world").get(FOO) == "new"


async def test_one_fiber_may_provide_a_name_in_two_realms_and_takes_both_away(root: Context):
    place = root.isolate(FOO, "two")

    def body(ctx: Context, _config: object) -> None:
        ctx.provide(FOO, "one")
        other = ctx.isolate(FOO, "two")
        other.provide(FOO, "two")
        assert (ctx[FOO], other[FOO]) == ("one", "two")

    fiber = await root.plugin(body)
    assert (root.get(FOO), place.get(FOO)) == ("one", "two")
    await fiber.dispose()
    assert (root.get(FOO), place.get(FOO)) == (None, None)


async def test_child_in_an_isolated_realm_must_inject_for_itself(root: Context):
    place = root.isolate(FOO)
    place.provide(FOO, "inside")
    seen: list[str] = []
    children = []

    def parent(ctx: Context, _config: object) -> None:
        seen.append(ctx[FOO])
        children.extend([ctx.plugin(reading(seen, inject=())), ctx.plugin(reading(seen))])

    parent.inject = (FOO,)
    await place.plugin(parent)
    with pytest.raises(ServiceAccessError, match='cannot get property "foo" without inject'):
        await children[0]
    await children[1]
    assert seen == ["inside", "inside"]


async def test_isolated_context_does_not_read_what_the_root_has(root: Context):
    root.provide(FOO, "root's")
    seen: list[str] = []
    with pytest.raises(ServiceAccessError) as caught:
        await root.isolate(FOO).plugin(reading(seen, inject=()))
    assert caught.value.code == "SERVICE_NOT_INJECTED"
    assert root.isolate(FOO).foo is None


async def test_an_injected_name_isolated_inside_the_plugin_is_another_service(root: Context):
    root.provide(FOO, "root's")

    def body(ctx: Context, _config: object) -> None:
        assert ctx[FOO] == "root's"
        with pytest.raises(ServiceAccessError) as caught:
            ctx.isolate(FOO)[FOO]
        assert caught.value.code == "SERVICE_NOT_INJECTED"

    body.inject = (FOO,)
    await root.plugin(body)


async def test_change_in_one_realm_leaves_dependents_in_another_alone(root: Context):
    root.provide(FOO, "root's")
    seen: list[str] = []
    await root.plugin(reading(seen))
    provided = root.isolate(FOO, "x").provide(FOO, "other")
    provided()
    assert seen == ["root's"]


async def test_service_event_is_heard_only_where_the_name_means_that_realm(root: Context):
    told: list[str] = []
    place = root.isolate(FOO, "x")
    root.on(Internal.SERVICE, lambda name, value: told.append(f"root {name} {value}"))
    place.on(Internal.SERVICE, lambda name, value: told.append(f"x {name} {value}"))
    place.provide(FOO, "1")
    root.provide(FOO, "2")
    root.provide(BAR, "3")
    assert told == ["x foo 1", "root foo 2", "root bar 3", "x bar 3"]


class Reader(Service):
    """Reads what it injects itself, and what may be missing."""

    provides = ServiceKey["Reader"]("reader")
    inject = (FOO,)

    def read(self) -> str:
        return self.ctx[FOO]

    def optional(self) -> tuple[str | None, str | None]:
        return self.ctx.get(FOO), self.ctx.get(BAR)

    def apart(self) -> str | None:
        return self.ctx.isolate(FOO).get(FOO)

    def told(self) -> object:
        return self.ctx.interception(Reader.provides)

    def keep(self, effect) -> None:
        self.ctx.effect(lambda: effect)


async def test_service_looks_up_in_its_own_realm_and_owns_with_its_callers(root: Context):
    root.provide(FOO, "the service's")
    await root.plugin(Reader)
    place = root.isolate(FOO).isolate(BAR)
    place.provide(FOO, "the caller's")
    place.provide(BAR, "the caller's bar")
    seen: list[object] = []
    gone: list[str] = []

    def body(ctx: Context, _config: object) -> None:
        reader = ctx[Reader.provides]
        seen.extend([ctx[FOO], reader.read(), reader.optional(), reader.apart()])
        reader.keep(lambda: gone.append("with its caller"))

    body.inject = (FOO, Reader.provides)
    fiber = await place.plugin(body)
    assert seen == [
        "the caller's",
        "the service's",
        ("the service's", "the caller's bar"),
        None,
    ]
    await fiber.dispose()
    assert gone == ["with its caller"]


async def test_service_of_the_same_fiber_still_looks_up_in_its_own_realm(root: Context):
    root.provide(FOO, "the service's")
    root.provide(Reader.provides, Reader(root))
    place = root.isolate(FOO)
    place.provide(FOO, "the caller's")
    assert place[Reader.provides].read() == "the service's"


async def test_plugin_that_a_service_mounts_for_its_caller_has_no_right_of_the_service(
    root: Context,
):
    class Mounting(Reader):
        provides = ServiceKey["Mounting"]("mounting")

        def mount(self, body):
            return self.ctx.plugin(body)

    await root.plugin(providing("x"))
    await root.plugin(Mounting)
    mounted = []

    def caller(ctx: Context, _config: object) -> None:
        mounted.append(ctx[Mounting.provides].mount(reading([], inject=())))

    caller.inject = (Mounting.provides,)
    fiber = await root.plugin(caller)
    with pytest.raises(ServiceAccessError, match="without inject"):
        await mounted[0]
    assert mounted[0].parent is fiber


async def test_service_provided_in_a_realm_reads_that_realm_for_its_callers(root: Context):
    root.provide(FOO, "root's")
    place = root.isolate(FOO)
    place.provide(FOO, "isolated")
    await place.plugin(Reader)
    assert root[Reader.provides].read() == "isolated"


async def test_interceptions_merge_from_the_root_shallowly_and_the_nearest_wins(root: Context):
    key = Reader.provides
    outer = root.intercept(key, {"level": 1, "deep": {"a": 1}})
    inner = outer.extend(x=1).intercept(key, {"deep": {"b": 2}, "more": True})
    assert dict(root.interception(key)) == {}
    assert outer.interception(key) == {"level": 1, "deep": {"a": 1}}
    assert inner.interception(key) == {"level": 1, "deep": {"b": 2}, "more": True}
    assert dict(inner.interception(FOO)) == {}
    assert inner.fiber is root.fiber


async def test_services_method_reads_its_callers_interception(root: Context):
    root.provide(FOO, "x")
    await root.plugin(Reader)
    told: list[object] = []

    def body(ctx: Context, _config: object) -> None:
        told.append(ctx[Reader.provides].told())

    body.inject = (Reader.provides,)
    await root.intercept(Reader.provides, {"quiet": True}).plugin(body)
    await root.plugin(body)
    assert told == [{"quiet": True}, {}]


async def test_inject_mapping_gates_and_exposes_the_settings(root: Context):
    seen: list[object] = []

    def child(ctx: Context, _config: object) -> None:
        seen.append(ctx.interception(FOO))

    def body(ctx: Context, _config: object) -> None:
        seen.append((ctx[FOO], ctx.interception(FOO), dict(ctx.interception(BAR))))
        ctx.plugin(child)

    body.inject = {FOO: {"a": 1}, BAR: None}
    outer = root.intercept(FOO, {"a": 0, "b": 2})
    fiber = outer.plugin(body)
    root.provide(FOO, "x")
    assert fiber.state == 0
    root.provide(BAR, "y")
    await fiber
    await root.plugin(lambda _ctx, _config: None)
    assert seen == [("x", {"a": 1, "b": 2}, {}), {"a": 1, "b": 2}]
    assert dict(root.interception(FOO)) == {}


async def test_mounting_and_inject_take_settings_too(root: Context):
    root.provide(FOO, "x")
    seen: list[object] = []
    await root.plugin(
        lambda ctx, _config: seen.append(ctx.interception(FOO)), inject={FOO: {"a": 1}}
    )
    await root.inject({FOO: {"b": 2}}, lambda ctx: seen.append(ctx.interception(FOO)))
    assert seen == [{"a": 1}, {"b": 2}]


async def test_subclass_of_a_service_inherits_what_it_injects(root: Context):
    class Special(Reader):
        provides = ServiceKey["Special"]("special")

    fiber = root.plugin(Special)
    assert set(fiber.inject) == {"foo"}
    root.provide(FOO, "x")
    await fiber
    assert root[Special.provides].read() == "x"
