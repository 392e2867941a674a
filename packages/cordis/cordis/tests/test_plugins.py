"""The forms of a plugin and what they need."""

from __future__ import annotations

import types

import msgspec
import pytest
from dsh_cordis import ConfigError, Context, CordisError, Service, ServiceKey

pytestmark = pytest.mark.anyio

FOO = ServiceKey[str]("foo")


async def test_function_object_module_and_class_mount_alike(root: Context):
    ran: list[tuple[str, object]] = []

    def function(ctx: Context, config: object) -> None:
        ran.append((ctx.fiber.name, config))

    class Object:
        name = "object"

        def apply(self, ctx: Context, config: object) -> None:
            ran.append((ctx.fiber.name, config))

    module = types.ModuleType("pkg.module")
    module.apply = function

    class Class(Service):
        def __init__(self, ctx: Context, config: object = None) -> None:
            super().__init__(ctx, config)
            ran.append((ctx.fiber.name, config))

    for plugin in (function, Object(), module, Class):
        await root.plugin(plugin, 1)
    assert ran == [("function", 1), ("object", 1), ("module", 1), ("Class", 1)]


async def test_same_function_twice_makes_two_fibers(root: Context):
    ran: list[object] = []

    def body(_ctx: Context, config: object) -> None:
        ran.append(config)

    first, second = await root.plugin(body, 1), await root.plugin(body, 2)
    assert first is not second
    assert ran == [1, 2]


class Settings(msgspec.Struct, frozen=True):
    size: int = 10
    names: tuple[str, ...] = ("a",)


async def test_omitted_config_yields_all_defaults_in_the_body(root: Context):
    seen: list[object] = []

    def body(_ctx: Context, config: object) -> None:
        seen.append(config)

    body.Config = Settings
    await root.plugin(body)
    assert seen == [Settings(size=10, names=("a",))]


@pytest.mark.parametrize("bad", [{"size": "ten"}, {"sise": 1}, 3])
async def test_config_that_does_not_fit_fails_the_plugin_before_its_body(root: Context, bad):
    ran: list[object] = []

    def body(_ctx: Context, config: object) -> None:
        ran.append(config)

    body.Config = Settings
    fiber = root.plugin(body, bad)
    with pytest.raises(ConfigError):
        await fiber
    assert fiber.state == 3
    assert ran == []


async def test_each_mount_of_a_plugin_has_its_own_config(root: Context):
    seen: list[object] = []

    def body(_ctx: Context, config: object) -> None:
        seen.append(config)

    body.Config = Settings
    await root.plugin(body, {"size": 1})
    await root.plugin(body, {"size": 2})
    assert seen == [Settings(size=1), Settings(size=2)]


async def test_module_with_a_default_is_that_plugin(root: Context):
    ran: list[str] = []
    module = types.ModuleType("pkg.module")
    module.apply = lambda _ctx, _config: ran.append("module")
    module.default = lambda _ctx, _config: ran.append("default")
    await root.plugin(module)
    assert ran == ["default"]


@pytest.mark.parametrize("bad", [3, object(), types.ModuleType("empty"), int])
async def test_anything_else_is_refused(root: Context, bad: object):
    with pytest.raises(CordisError) as caught:
        root.plugin(bad)
    assert caught.value.code == "INVALID_PLUGIN"
    assert str(caught.value) == (
        'invalid plugin, expect function or object with an "apply" method, '
        f"received {type(bad).__name__}"
    )


async def test_mount_with_an_inject_of_no_keys_leaves_nothing(root: Context):
    with pytest.raises(CordisError) as caught:
        root.plugin(lambda _ctx, _config: None, inject=["name"])
    assert caught.value.code == "INVALID_PLUGIN"
    assert root.fiber.get_effects() == ()


async def test_inject_that_holds_no_keys_is_refused(root: Context):
    def body(_ctx: Context, _config: object) -> None: ...

    body.inject = ("foo",)
    with pytest.raises(CordisError, match="expected a ServiceKey"):
        root.plugin(body)


async def test_mount_may_add_dependencies_and_a_name(root: Context):
    seen: list[str] = []
    fiber = root.plugin(lambda ctx, _config: seen.append(ctx[FOO]), inject=[FOO], name="mine")
    assert fiber.state == 0
    root.provide(FOO, "x")
    await fiber
    assert seen == ["x"]
    assert fiber.name == "mine"


async def test_inject_mounts_a_child_that_lives_while_the_services_do(root: Context):
    log: list[str] = []

    def callback(ctx: Context):
        log.append(ctx[FOO])
        return lambda: log.append("gone")

    fiber = root.inject([FOO], callback)
    provided = root.provide(FOO, "x")
    await fiber
    await provided()
    assert log == ["x", "gone"]


async def test_service_is_provided_before_it_starts(root: Context):
    log: list[object] = []

    class Thing(Service):
        provides = ServiceKey["Thing"]("thing")

        async def start(self):
            log.append(self.ctx[Thing.provides] is self)
            yield lambda: log.append("stopped")

    fiber = await root.plugin(Thing)
    await fiber.dispose()
    assert log == [True, "stopped"]


async def test_interpolation_runs_at_each_activation_before_the_body(root: Context):
    seen: list[object] = []
    value = ["one"]
    fiber = await root.plugin(
        lambda _ctx, config: seen.append(config),
        {"expr": 1},
        interpolate=lambda ctx, raw: {**raw, "expr": value[0]},
    )
    value[0] = "two"
    await fiber.restart()
    assert seen == [{"expr": "one"}, {"expr": "two"}]


async def test_interpolation_that_raises_fails_the_plugin(root: Context):
    ran: list[object] = []

    def interpolate(_ctx: Context, _raw: object) -> object:
        raise CordisError("row x: unknown name", code="EXPRESSION")

    fiber = root.plugin(lambda _ctx, config: ran.append(config), {}, interpolate=interpolate)
    with pytest.raises(CordisError, match="unknown name"):
        await fiber
    assert ran == []


async def test_config_event_wraps_the_raw_configuration(root: Context):
    from dsh_cordis import Internal

    seen: list[object] = []
    root.on(Internal.CONFIG, lambda fiber, raw, proceed: [fiber.name, raw, proceed()])
    await root.plugin(lambda _ctx, config: seen.append(config), 1, name="p")
    assert seen == [["p", 1, 1]]


def test_mounting_without_an_event_loop_is_refused_and_leaves_nothing():
    root = Context()
    with pytest.raises(RuntimeError):
        root.plugin(lambda _ctx, _config: None)
    assert root.fiber.get_effects() == ()
