"""Providing and reading services."""

from __future__ import annotations

import asyncio

import pytest
from dsh_cordis import (
    Context,
    CordisError,
    Emit,
    Internal,
    Service,
    ServiceAccessError,
    ServiceKey,
)

pytestmark = pytest.mark.anyio

FOO = ServiceKey[str]("foo")
BAR = ServiceKey[str]("bar")


def provider(value: str, key: ServiceKey[str] = FOO):
    def body(ctx: Context, _config: object) -> None:
        ctx.provide(key, value)

    return body


def consumer(seen: list[str], *, inject=(FOO,)):
    def body(ctx: Context, _config: object) -> None:
        seen.append(ctx[FOO])

    body.inject = inject
    return body


async def test_same_name_twice_raises_naming_the_owner(root: Context):
    root.plugin(provider("one"), name="first")
    second = root.plugin(provider("two"), name="second")
    with pytest.raises(CordisError) as caught:
        await second
    assert str(caught.value) == 'service "foo" has been registered at <first>'
    assert caught.value.code == "SERVICE_EXISTS"


async def test_running_provider_reads_its_own_service_but_nobody_else_sees_it(root: Context):
    seen: list[object] = []

    def body(ctx: Context, _config: object) -> None:
        ctx.provide(FOO, "x")
        seen.extend([ctx.get(FOO), ctx[FOO], ctx.foo])

    await root.plugin(body)
    assert seen == [None, "x", "x"]
    assert root.get(FOO) == "x"


async def test_root_provided_value_appears_at_once(root: Context):
    root.provide(FOO, "x")
    assert root.get(FOO) == root[FOO] == "x"


async def test_uninjected_sibling_service_is_refused(root: Context):
    await root.plugin(provider("x"))
    fiber = root.plugin(consumer([], inject=()))
    with pytest.raises(ServiceAccessError) as caught:
        await fiber
    assert str(caught.value) == 'cannot get property "foo" without inject'


async def test_refused_attribute_is_an_attribute_error(root: Context):
    seen: list[bool] = []
    await root.plugin(lambda ctx, _config: seen.append(hasattr(ctx, "foo")))
    assert seen == [False]


async def test_missing_optional_service_reads_as_none(root: Context):
    seen: list[object] = []
    await root.plugin(lambda ctx, _config: seen.append(ctx.get(FOO)))
    assert seen == [None]


async def test_root_attribute_of_a_missing_service_is_none_and_its_key_raises(root: Context):
    assert root.foo is None
    with pytest.raises(ServiceAccessError) as caught:
        root[FOO]
    assert caught.value.code == "SERVICE_INACTIVE"


@pytest.mark.parametrize("name", ["_private", "then", "prototype", "7"])
def test_names_that_are_never_services(name: str):
    with pytest.raises(AttributeError):
        getattr(Context(), name)


async def test_child_plugin_reads_its_parents_injected_service(root: Context):
    seen: list[str] = []

    def parent(ctx: Context, _config: object) -> None:
        ctx.plugin(consumer(seen, inject=()))

    parent.inject = (FOO,)
    root.plugin(parent)
    await root.plugin(provider("x"))
    await asyncio.sleep(0)
    assert seen == ["x"]


async def test_everybody_reads_what_the_root_provides(root: Context):
    root.provide(FOO, "x")
    seen: list[str] = []
    await root.plugin(consumer(seen, inject=()))
    assert seen == ["x"]


async def test_own_attribute_wins_over_a_service_of_that_name(root: Context):
    root.provide(FOO, "service")
    child = root.extend(foo="attribute").extend(other=1)
    assert child.foo == "attribute"
    assert (child.meta("foo"), child.meta("other"), child.meta("none")) == ("attribute", 1, None)
    assert child[FOO] == "service"
    assert root.foo == "service"
    assert child.root is root
    assert child.fiber is root.fiber


async def test_injected_service_stays_usable_in_cleanup_while_its_provider_unloads(root: Context):
    seen: list[str] = []

    def body(ctx: Context, _config: object):
        return lambda: seen.append(ctx[FOO])

    body.inject = (FOO,)
    fiber = await root.plugin(provider("x"))
    await root.plugin(body)
    await fiber.dispose()
    assert seen == ["x"]


async def test_read_of_a_required_service_outside_its_activation_is_refused(root: Context):
    fiber = root.plugin(consumer([]))
    with pytest.raises(ServiceAccessError) as caught:
        fiber.ctx[FOO]
    assert str(caught.value) == 'cannot get required service "foo" in inactive context'


async def test_registration_disposer_waits_for_a_dependents_asynchronous_cleanup(root: Context):
    gate = asyncio.Event()
    registration = root.provide(FOO, "x")

    def body(_ctx: Context, _config: object):
        return gate.wait

    body.inject = (FOO,)
    fiber = await root.plugin(body)
    done = asyncio.ensure_future(_await(registration()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not done.done()
    assert root.get(FOO) is None
    gate.set()
    await done
    assert fiber.state == 0


async def _await(work):
    await work


async def test_rest_of_a_providers_cleanup_does_not_wait_for_dependents(root: Context):
    gate, cleaned = asyncio.Event(), asyncio.Event()

    def body(ctx: Context, _config: object) -> None:
        ctx.effect(lambda: cleaned.set)
        ctx.provide(FOO, "x")

    def dependent(_ctx: Context, _config: object):
        return gate.wait

    dependent.inject = (FOO,)
    fiber = await root.plugin(body)
    await root.plugin(dependent)
    end = fiber.dispose()
    await cleaned.wait()
    assert fiber.inertia is not None
    gate.set()
    await end


async def test_availability_is_asked_for_each_dependent(root: Context):
    root.provide(FOO, "x", available=lambda ctx: ctx.meta("role") == "friend")
    assert root.get(FOO) is None
    assert root.extend(role="friend").get(FOO) == "x"
    seen: list[str] = []
    stranger = root.plugin(consumer(seen))
    await root.extend(role="friend").plugin(consumer(seen))
    assert seen == ["x"]
    assert stranger.state == 0


async def test_raising_availability_means_absent_and_is_logged(root: Context, caplog):
    root.provide(FOO, "x", available=lambda _ctx: 1 // 0 == 0)
    assert root.get(FOO) is None
    assert "availability of foo of 'root' failed" in caplog.text


async def test_service_event_tells_when_one_comes_and_goes(root: Context):
    told: list[tuple[str, object]] = []
    root.on(Internal.SERVICE, lambda name, value: told.append((name, value)))
    fiber = await root.plugin(provider("x"))
    await fiber.dispose()
    assert told[0] == ("foo", "x")
    assert told[-1] == ("foo", None)


class Registry(Service):
    provides = ServiceKey["Registry"]("registry")

    def __init__(self, ctx: Context, config: object = None) -> None:
        super().__init__(ctx, config)
        self.items: list[str] = []
        self._secret = 0

    def register(self, item: str):
        def setup():
            self.items.append(item)
            return lambda: self.items.remove(item)

        return self.ctx.effect(setup, "register")

    def bump(self) -> int:
        self._secret += 1
        return self._secret

    def reach(self) -> tuple[str, Context]:
        return self.ctx[BAR], self.own


REGISTRY = Registry.provides


def user(run, *, inject=(REGISTRY,)):
    def body(ctx: Context, _config: object):
        return run(ctx)

    body.inject = inject
    return body


async def test_registration_through_a_service_ends_with_its_caller(root: Context):
    await root.plugin(Registry)
    fiber = await root.plugin(user(lambda ctx: ctx[REGISTRY].register("a")))
    assert root[REGISTRY].items == ["a"]
    await fiber.dispose()
    assert root[REGISTRY].items == []


async def test_listener_registered_inside_a_service_vanishes_with_the_calling_plugin(root: Context):
    event = Emit[str]("test/heard")

    class Hearing(Registry):
        provides = ServiceKey["Hearing"]("hearing")

        def hear(self) -> None:
            self.ctx.on(event, self.items.append)

    await root.plugin(Hearing)
    fiber = await root.plugin(
        user(lambda ctx: ctx[Hearing.provides].hear(), inject=(Hearing.provides,))
    )
    root.emit(event, "one")
    await fiber.dispose()
    root.emit(event, "two")
    assert root[Hearing.provides].items == ["one"]


async def test_view_shares_state_with_the_service_and_is_one_of_its_class(root: Context):
    await root.plugin(Registry)
    views: list[Registry] = []
    await root.plugin(user(lambda ctx: views.append(ctx[REGISTRY])))
    assert isinstance(views[0], Registry)
    assert views[0].bump() == 1
    assert root[REGISTRY].bump() == 2
    views[0].late = "later"
    assert root[REGISTRY].late == "later"


async def test_view_is_one_per_context_and_service(root: Context):
    await root.plugin(Registry)
    root.extend()
    assert root[REGISTRY] is root[REGISTRY]
    assert root.extend()[REGISTRY] is not root[REGISTRY]


async def test_view_is_dropped_when_the_provider_changes(root: Context):
    first = await root.plugin(Registry)
    old = root[REGISTRY]
    await first.dispose()
    await root.plugin(Registry)
    assert root[REGISTRY] is not old


async def test_callers_context_reaches_what_the_service_injects(root: Context):
    class Needy(Registry):
        provides = ServiceKey["Needy"]("needy")
        inject = (BAR,)

    await root.plugin(provider("bar", BAR))
    service = await root.plugin(Needy)
    seen: list[tuple[str, Context]] = []
    await root.plugin(
        user(lambda ctx: seen.append(ctx[Needy.provides].reach()), inject=(Needy.provides,))
    )
    assert seen == [("bar", service.ctx)]


async def test_callers_context_keeps_the_callers_attributes_and_owner(root: Context):
    await root.plugin(Registry)
    seen: list[tuple[object, object]] = []

    def body(ctx: Context, _config: object) -> None:
        view = ctx.extend(agent="a1")[REGISTRY]
        seen.append((view.ctx.meta("agent"), view.ctx.fiber is ctx.fiber))

    body.inject = (REGISTRY,)
    await root.plugin(body)
    assert seen == [("a1", True)]


async def test_caller_may_use_its_own_services_through_the_services_context(root: Context):
    root.plugin(provider("bar", BAR))
    await root.plugin(Registry)
    seen: list[str] = []
    await root.plugin(
        user(lambda ctx: seen.append(ctx[REGISTRY].reach()[0]), inject=(REGISTRY, BAR))
    )
    assert seen == ["bar"]


async def test_unwrap_gives_the_service_behind_a_view(root: Context):
    from dsh_cordis import unwrap

    await root.plugin(Registry)
    one, two = root.extend()[REGISTRY], root.extend()[REGISTRY]
    assert one is not two
    assert unwrap(one) is unwrap(two)
    assert type(unwrap(one)) is Registry
    assert unwrap("plain") == "plain"


def test_service_with_slots_is_refused_at_class_creation():
    with pytest.raises(TypeError, match="__slots__"):

        class Slotted(Service):
            __slots__ = ("x",)


def test_service_with_a_cached_property_is_refused_even_from_a_mixin():
    import functools

    class Mixin:
        @functools.cached_property
        def heavy(self) -> int:
            return 1

    with pytest.raises(TypeError, match="heavy is a cached_property"):

        class Cached(Mixin, Service):
            pass


async def test_a_disposed_callers_view_is_not_kept_by_the_service(root: Context):
    import gc
    import weakref

    await root.plugin(Registry)
    fiber = await root.plugin(user(lambda ctx: ctx[REGISTRY].register("a")))
    ghost = weakref.ref(fiber.ctx)
    await fiber.dispose()
    del fiber
    gc.collect()
    assert ghost() is None


async def test_service_publishes_nothing_to_expressions_by_default(root: Context):
    await root.plugin(Registry)
    assert root[REGISTRY].expression_fields() == {}
