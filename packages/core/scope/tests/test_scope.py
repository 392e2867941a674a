"""Scopes end to end, on the real kernel."""

from __future__ import annotations

import gc
import weakref

import pytest
from dsh_cordis import Context, CordisError, Emit, ServiceKey
from dsh_scope import (
    AnonymousEntries,
    NamedEntries,
    ScopedLayers,
    ScopeError,
    bind_scope_parent,
    create_scope,
    scope_chain_of,
    scope_of,
    scope_parent_of,
    scope_target,
)

pytestmark = pytest.mark.anyio


class Subject:
    """A key as products use them: an object with an identity."""


PING = Emit[Subject]("test/ping", scoped=scope_target)


def hear(ctx: Context, name: str, heard: list[str], **options: bool) -> None:
    ctx.on(PING, lambda _subject: heard.append(name), **options)


async def test_dispatch_to_a_reaches_root_and_a_but_not_b():
    async with Context() as root:
        a, b, heard = Subject(), Subject(), []
        hear(root, "root", heard)
        hear(create_scope(root, a).ctx, "a", heard)
        hear(create_scope(root, b).ctx, "b", heard)
        root.emit(PING, a)
        assert heard == ["root", "a"]


async def test_dispatch_to_no_key_reaches_untagged_listeners_only():
    async with Context() as root:
        heard: list[str] = []
        hear(root, "root", heard)
        hear(create_scope(root, Subject()).ctx, "scoped", heard)
        root.emit(PING, Subject(), target=scope_target(None))
        assert heard == ["root"]


async def test_unscoped_listener_hears_every_scope():
    async with Context() as root:
        heard: list[str] = []
        hear(create_scope(root, Subject()).ctx, "global", heard, unscoped=True)
        root.emit(PING, Subject())
        assert heard == ["global"]


async def test_events_flow_up_the_chain_never_down():
    async with Context() as root:
        parent, child, heard = Subject(), Subject(), []
        hear(create_scope(root, parent).ctx, "parent", heard)
        hear(create_scope(root, child, parent=parent).ctx, "child", heard)
        root.emit(PING, child)
        assert heard == ["parent", "child"]
        heard.clear()
        root.emit(PING, parent)
        assert heard == ["parent"]


async def test_moving_a_key_changes_who_hears_it_even_through_a_kept_target():
    async with Context() as root:
        first, second, child, heard = Subject(), Subject(), Subject(), []
        hear(create_scope(root, first).ctx, "first", heard)
        hear(create_scope(root, second).ctx, "second", heard)
        rebind = bind_scope_parent(child, first)
        grandchild = Subject()
        bind_scope_parent(grandchild, child)
        kept = scope_target(grandchild)
        root.emit(PING, grandchild, target=kept)
        rebind(second)
        root.emit(PING, grandchild, target=kept)
        assert heard == ["first", "second"]


async def test_second_bind_raises_and_rebind_moves():
    key, parent, other = Subject(), Subject(), Subject()
    rebind = bind_scope_parent(key, parent)
    with pytest.raises(ScopeError, match="already bound") as caught:
        bind_scope_parent(key, other)
    assert caught.value.code == "SCOPE_BOUND"
    rebind(other)
    assert scope_parent_of(key) is other
    assert scope_chain_of(key) == (key, other)


async def test_cycle_raises_and_changes_nothing():
    key, parent = Subject(), Subject()
    bind_scope_parent(key, parent)
    with pytest.raises(ScopeError) as caught:
        bind_scope_parent(parent, key)
    assert caught.value.code == "SCOPE_CYCLE"
    assert scope_parent_of(parent) is None


async def test_tag_is_inherited_by_derived_contexts_and_plugins_below():
    async with Context() as root:
        key, seen = Subject(), []
        scope = create_scope(root, key)
        await scope.ctx.plugin(lambda ctx, _config: seen.append(scope_of(ctx.extend(x=1))))
        assert seen == [key]
        assert scope_of(root) is None


async def test_scope_is_usable_at_once_and_owns_its_registrations():
    async with Context() as root:
        key, heard = Subject(), []
        scope = create_scope(root, key)
        hear(scope.ctx, "scoped", heard)
        root.emit(PING, key)
        await scope.dispose()
        root.emit(PING, key)
        assert heard == ["scoped"]
        with pytest.raises(CordisError) as caught:
            hear(scope.ctx, "late", heard)
        assert caught.value.code == "INACTIVE_EFFECT"


async def test_scope_reads_the_services_of_its_minter():
    key = ServiceKey[str]("greeting")
    async with Context() as root:
        root.provide(key, "hello")
        seen: list[str] = []

        def body(ctx: Context, _config: object) -> None:
            seen.append(create_scope(ctx, Subject()).ctx[key])

        body.inject = (key,)
        await root.plugin(body)
        assert seen == ["hello"]


async def test_every_caller_of_dispose_waits_for_the_same_end():
    async with Context() as root:
        import asyncio

        scope = create_scope(root, Subject())
        gate, order = asyncio.Event(), []

        async def cleanup() -> None:
            await gate.wait()
            order.append("cleaned")

        scope.ctx.effect(lambda: cleanup)

        async def dispose(name: str) -> None:
            await scope.dispose()
            order.append(name)

        async with asyncio.TaskGroup() as group:
            group.create_task(dispose("first"))
            group.create_task(dispose("second"))
            await asyncio.sleep(0)
            gate.set()
        assert order[0] == "cleaned"
        assert sorted(order[1:]) == ["first", "second"]


async def test_parent_given_at_creation_is_released_with_the_scope():
    async with Context() as root:
        key, parent = Subject(), Subject()
        await create_scope(root, key, parent=parent).dispose()
        assert scope_parent_of(key) is None
        again = create_scope(root, key, parent=parent)
        assert scope_parent_of(key) is parent
        await again.dispose()


async def test_raw_dispose_can_be_ordered_inside_another_effect():
    async with Context() as root:
        order: list[str] = []

        def setup():
            yield lambda: order.append("outer")
            scope = create_scope(root, Subject())
            scope.ctx.effect(lambda: lambda: order.append("scope"))
            yield scope.raw_dispose

        effect = root.effect(setup, "composite")
        await effect()
        assert order == ["scope", "outer"]


async def test_a_dead_key_is_not_kept_alive():
    async with Context() as root:
        key = Subject()
        scope = create_scope(root, key, parent=Subject())
        hear(scope.ctx, "x", [])
        root.emit(PING, key)
        await scope.dispose()
        ghost = weakref.ref(key)
        del key, scope
        gc.collect()
        assert ghost() is None


def layers(told: list[object] | None = None) -> ScopedLayers[NamedEntries[str]]:
    return ScopedLayers(NamedEntries, notify=None if told is None else told.append)


async def test_merge_keeps_global_order_and_the_nearest_shadow_wins():
    async with Context() as root:
        key = Subject()
        registry = layers()
        scoped = create_scope(root, key).ctx
        for ctx, name, value in (
            (root, "a", "global"),
            (root, "shared", "global"),
            (scoped, "shared", "scope"),
            (scoped, "c", "scope"),
        ):
            registry.effect(ctx, lambda layer, n=name, v=value: layer.add(n, v), label="add")
        merged = registry.merge(key, NamedEntries.items)
        assert list(merged.items()) == [("a", "global"), ("shared", "scope"), ("c", "scope")]
        assert list(registry.merge(None, NamedEntries.items)) == ["a", "shared"]


async def test_layers_of_a_chain_come_farthest_first():
    async with Context() as root:
        parent, child = Subject(), Subject()
        registry = layers()
        for ctx, name in (
            (create_scope(root, child, parent=parent).ctx, "child"),
            (create_scope(root, parent).ctx, "parent"),
            (root, "global"),
        ):
            registry.effect(ctx, lambda layer, n=name: layer.add(n, n), label="add")
        names = [list(layer) for layer in registry.chain_layers(child)]
        assert names == [["global"], ["parent"], ["child"]]


async def test_entry_ends_with_its_scope_and_the_empty_layer_vanishes():
    async with Context() as root:
        key, told = Subject(), []
        registry = layers(told)
        scope = create_scope(root, key)
        registry.effect(scope.ctx, lambda layer: layer.add("x", "1"), label="add")
        assert registry.peek(key) is not None
        await scope.dispose()
        assert registry.peek(key) is None
        assert told == [key, key]


async def test_failing_notification_leaves_no_entry_and_tells_again_after_the_undo():
    async with Context() as root:
        key, order = Subject(), []
        registry: ScopedLayers[NamedEntries[str]]

        def notify(_key: object) -> None:
            layer = registry.peek(key)
            order.append(0 if layer is None else len(layer))
            if layer is not None:
                raise RuntimeError("no")

        registry = ScopedLayers(NamedEntries, notify=notify)
        ctx = create_scope(root, key).ctx
        with pytest.raises(RuntimeError, match="no"):
            registry.effect(ctx, lambda layer: layer.add("x", "1"), label="add")
        assert order == [1, 0]
        assert registry.peek(key) is None


async def test_failing_action_leaves_no_layer():
    async with Context() as root:
        key = Subject()
        registry = layers()
        ctx = create_scope(root, key).ctx

        def action(_layer: NamedEntries[str]):
            raise ValueError("bad")

        with pytest.raises(ValueError, match="bad"):
            registry.effect(ctx, action, label="add")
        assert registry.peek(key) is None


def test_stale_undo_keeps_a_reinserted_name():
    entries: NamedEntries[int] = NamedEntries("tool")
    undo = entries.add("x", 1)
    undo()
    entries.add("x", 2)
    undo()
    assert entries.get("x") == 2
    with pytest.raises(ScopeError, match='tool "x" is already registered here') as caught:
        entries.add("x", 3)
    assert caught.value.code == "DUPLICATE_NAME"


def test_anonymous_entries_keep_equal_values_apart():
    entries: AnonymousEntries[str] = AnonymousEntries()
    first = entries.add("same")
    entries.add("same")
    first()
    first()
    assert list(entries) == ["same"]
