"""Fibers: one mounted plugin each, converging to the state that is wanted of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any

from ._effects import Effect, EffectInfo, HasEffect, undo_all
from ._events import emit_contained
from ._failures import outlive, plugin_failure
from ._internal import Internal
from ._kernel import Kernel
from ._plugin import PluginRecord, resolve_config
from ._report import log_failure
from ._settling import OnlyFiber, Settling, inactive, owners, self_wait
from ._states import FiberState
from ._tasks import TaskSet

if TYPE_CHECKING:
    from ._context import Context
    from ._keys import ServiceKey
    from ._services import Implementation, Realm


PENDING, LOADING, ACTIVE, FAILED, DISPOSED, UNLOADING = FiberState


class Fiber(HasEffect):
    """One mounted plugin. Await it to wait for work in flight; that raises its startup error.

    A single task at a time (`inertia`) loads and unloads it. Requests only note what is wanted and
    start what can start; awaiting their result waits, and a cancelled waiter stops nothing.
    """

    __slots__ = (
        "__weakref__",
        "_activations",
        "_effects",
        "_interpolate",
        "_plugin",
        "_raw",
        "_released",
        "_rerun",
        "config",
        "ctx",
        "error",
        "inertia",
        "inject",
        "kernel",
        "parent",
        "snapshot",
        "state",
        "tasks",
        "uid",
    )
    uid: int | None
    """0 for the root, then counting; None once disposed."""
    state: FiberState
    parent: Fiber | None
    ctx: Context
    """The context that its body gets."""
    config: Any
    """The validated configuration of the running or last activation."""
    error: BaseException | None
    """Why it is FAILED."""
    inject: dict[str, ServiceKey[Any]]
    """The services that it needs, by name; observers of its mount may add to it."""
    inertia: asyncio.Task[None] | None
    """The load or unload in flight."""
    kernel: Kernel
    tasks: TaskSet
    """What its plugin spawned."""
    snapshot: dict[Realm, Implementation]
    """The services that it may use by realm: taken when it loads, kept until its unload is over."""

    def __init__(
        self,
        kernel: Kernel,
        parent: Fiber | None,
        *,
        plugin: PluginRecord | None = None,
        config: object = None,
        interpolate: Callable[[Context, object], object] | None = None,
    ) -> None:
        self.kernel = kernel
        self.parent = parent
        self.uid = kernel.uid()
        self.state = ACTIVE if parent is None else PENDING
        self.config = None
        self.error = None
        self.inject = {key.name: key for key in plugin.inject} if plugin is not None else {}
        self.inertia = None
        self.snapshot = {}
        self.mounted = None
        self._plugin = plugin
        self._activations = 0
        self._raw = config
        self._interpolate = interpolate
        self._effects: dict[Effect, None] = {}
        self.tasks = TaskSet(self)
        self._released: list[asyncio.Future[None]] = []
        self._rerun = False

    def __repr__(self) -> str:
        return f"<Fiber {self.uid} {self.name!r} {self.state.name}>"

    # -- public -----------------------------------------------------------------------------

    @property
    def fiber(self) -> Fiber:
        """Itself, so that what `ctx.plugin` returns reads the same awaited or not."""
        return self

    @property
    def name(self) -> str:
        """The nearest named plugin upward, else `root`."""
        if self._plugin is not None and self._plugin.name:
            return self._plugin.name
        return "root" if self.parent is None else self.parent.name

    @property
    def active(self) -> bool:
        """Whether what it provides can be used by others."""
        return self.state is ACTIVE

    @property
    def unwanted(self) -> bool:
        """Whether a load in progress is to be undone as soon as its body returns."""
        return self.uid is None or self._rerun or self.state is UNLOADING or self._stale()

    def __await__(self) -> Generator[Any, None, Fiber]:
        if self.inertia is not None and self.inertia is asyncio.current_task():
            raise self_wait("its own activation")
        yield from self.quiet().__await__()
        if self.error is not None:
            raise self.error
        return self

    def dispose(self) -> Awaitable[None]:
        """Request the end; awaiting the result waits until everything is undone.

        Only the first call does anything and waits. Raises SELF_DISPOSAL when a task that the
        disposal has to wait for awaits it.
        """
        if self.uid is None:
            return Settling(None)
        if self.parent is not None:  # the root stays usable
            self.uid = None
            self.kernel.registry.discard(self)
            listeners = self.kernel.events.select(Internal.PLUGIN, (self,), None)
            emit_contained(Internal.PLUGIN, listeners, (self,))
        self._leave()
        return Settling(self)

    def restart(self) -> Awaitable[None]:
        """Unload and load again; clears a failure. Raises INACTIVE_EFFECT once disposed."""
        self._check_alive()
        self.error = None
        if self.state in (LOADING, ACTIVE):
            self._rerun = True
            self._leave()
        else:
            self._advance()
        return Settling(self)

    async def update(self, config: object, *, no_save: bool = False) -> None:
        """Replace the configuration.

        An active fiber validates it first (an invalid one raises and the old instance goes on),
        then restarts unless a listener of `internal/update` accepts it in place.
        """
        self._check_alive()
        if self.state is not ACTIVE:
            self._raw = config
            await self.restart()
            return
        resolved = self._resolve(config)
        before, restarted = (self._activations, self._raw), False

        async def replace() -> None:
            nonlocal restarted
            self._raw, restarted = config, True
            await self.restart()

        await self.ctx.waterfall(
            Internal.UPDATE, self, config, no_save, inner=replace, target=OnlyFiber(self)
        )
        if restarted or self._raw is not before[1]:
            return  # with this or with what came later
        self._raw = config  # accepted in place: a later restart keeps it too
        if self._activations == before[0]:
            self.config = resolved
        elif self.uid is not None:  # who accepted it has gone meanwhile
            await self.restart()

    def get_effects(self) -> tuple[EffectInfo, ...]:
        """What is registered now, in order, as a tree."""
        return tuple(effect.info() for effect in self._effects)

    # -- for the kernel: effects and tasks --------------------------------------------------

    def check_active(self) -> None:
        """Raises INACTIVE_EFFECT when nothing may be registered here."""
        if self.uid is None or self.state is UNLOADING:
            raise inactive()

    def register(self, label: str) -> Effect:
        """A new effect, registered before its setup runs."""
        self.check_active()
        effect = Effect(self, label)
        self._effects[effect] = None
        return effect

    def release(self, effect: Effect) -> bool:
        """Take an effect out; False if it is not directly this fiber's."""
        if effect not in self._effects:
            return False
        del self._effects[effect]
        return True

    # -- for the kernel: dependencies -------------------------------------------------------

    def begin(self) -> None:
        """Start the life of a mounted fiber."""
        self.kernel.services.watch(self)
        if self._orphaned():  # an observer of the mount disposed an owner
            self.dispose()
        else:
            self._advance()

    def dependency_changed(self) -> None:
        """A service that it injects came, went or changed hands."""
        if self.uid is None:
            return
        if self.state in (FAILED, UNLOADING):
            self.error = None
        if self.state is ACTIVE:
            if self._stale():
                self._leave()
        else:
            self._advance()

    def released(self) -> asyncio.Future[None]:
        """Resolves when the next unload is over."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._released.append(future)
        return future

    def end_with_parent(self) -> Awaitable[None] | None:
        """Dispose, or join the disposal that someone else started."""
        self.dispose()
        return None if self.inertia is None else self.quiet()

    async def quiet(self) -> None:
        """Wait until no load or unload is in flight; never raises what they raised."""
        while (task := self.inertia) is not None:
            # asyncio.wait: a cancelled waiter must not cancel a load.
            await asyncio.wait({task})

    # -- states -----------------------------------------------------------------------------

    def _stale(self) -> bool:
        """Whether a service of the snapshot is gone or another than it was."""
        if not self.inject:
            return False
        found = self.kernel.services.resolve(self)
        return found is None or any(
            self.snapshot.get(realm) is not one for realm, one in found.items()
        )

    def _leave(self) -> None:
        """Begin to unload, or let a running body finish and unload then."""
        if self.state in (ACTIVE, PENDING, FAILED):
            self._set_state(UNLOADING)
        self._ensure_task()

    def _advance(self) -> None:
        """Begin to load if nothing is missing."""
        if self.uid is None or self.error is not None or self.state not in (PENDING, FAILED):
            return
        self._load_or_wait()

    def _orphaned(self) -> bool:
        """Whether an owner is ending, which will end it too: then it does not start any more."""
        return any(one.uid is None or one.state is UNLOADING for one in owners(self))

    def _load_or_wait(self) -> None:
        found = None if self._orphaned() else self.kernel.services.resolve(self)
        if found is None:
            self._set_state(PENDING)
            return
        self.snapshot.update(found)
        self._set_state(LOADING)
        self._ensure_task()

    def _set_state(self, state: FiberState) -> None:
        old = self.state
        if old is state:
            return
        self.state = state
        if self.kernel.events.heard(Internal.STATUS):
            self.ctx.emit(Internal.STATUS, self, old)
        if (old is ACTIVE) is not (state is ACTIVE):
            self.kernel.services.activity_changed(self)

    def _ensure_task(self) -> None:
        if self.inertia is None:
            self.inertia = self.kernel.start(
                self._converge(), fiber=self, name=f"fiber {self.name}"
            )
            self.inertia.add_done_callback(self._cut_off)

    def _cut_off(self, task: asyncio.Task[None]) -> None:
        """A task that was cancelled before its first step could not say that it is over."""
        if self.inertia is task:
            self.inertia = None

    async def _converge(self) -> None:
        try:
            while self.state in (LOADING, UNLOADING):
                # Nobody ends it in the middle: what is left to be undone is undone.
                with contextlib.suppress(asyncio.CancelledError):
                    await (self._load() if self.state is LOADING else self._unload())
                await outlive()
        finally:
            self.inertia = None

    async def _load(self) -> None:
        plugin = self._plugin
        assert plugin is not None
        failure = None if self.unwanted else await self._run_body(plugin)
        if failure is not None:
            log_failure(self, "plugin", failure)
            # Otherwise it goes on to another activation, and this one says nothing about that.
            if self.uid is None or not self.unwanted:
                self.error = failure
        if failure is not None or self.unwanted:
            self._set_state(UNLOADING)
        else:
            self._set_state(ACTIVE)

    async def _run_body(self, plugin: PluginRecord) -> BaseException | None:
        try:
            self.config = self._resolve(self._raw)
        except BaseException as error:  # noqa: BLE001 - containment: unusable configuration fails the fiber
            return plugin_failure(error)
        await outlive()  # who was asked for the configuration may have ended this task
        if self.unwanted:  # or the plugin
            return None
        # Registered before the body runs, so that what the body returns is undone after what it
        # registered on the way.
        body = Effect(self, "body")
        self._effects[body] = None
        self._activations += 1
        failure = await body.open_here(lambda: plugin.run(self.ctx, self.config))
        if body.empty:
            body.forget()
        return failure

    def _resolve(self, raw: object) -> Any:  # noqa: ANN401 - an instance of the plugin's own Config
        plugin = self._plugin
        assert plugin is not None
        return resolve_config(plugin, self, raw, self._interpolate)

    async def _unload(self) -> None:
        await self.tasks.stop_all()
        await undo_all(self, tuple(self._effects))
        self._unloaded()

    def _unloaded(self) -> None:
        self.kernel.services.let_go(self)
        self._rerun = False
        released, self._released = self._released, []
        for future in released:
            if not future.done():
                future.set_result(None)
        if self.parent is None:
            self._set_state(ACTIVE)
        elif self.uid is None:
            self.kernel.services.unwatch(self)
            self._set_state(DISPOSED)
            if self.mounted is not None:
                self.mounted.forget()
        elif self.error is not None:
            self._set_state(FAILED)
        else:
            self._load_or_wait()

    def _check_alive(self) -> None:
        if self.uid is None:
            raise inactive()
