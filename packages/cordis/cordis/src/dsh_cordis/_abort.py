"""Cooperative cancellation of agent work.

A signal is passed down and checked after each await; nobody cancels a task that it did not start.
The first reason wins and is kept by identity.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from ._errors import CordisError

_log = logging.getLogger("dsh.cordis")


class AbortedError(CordisError):
    """Work stopped because its signal was aborted; `reason` is what the aborter gave."""

    reason: object

    def __init__(self, reason: object = None) -> None:
        super().__init__(f"aborted: {reason}" if reason is not None else "aborted", code="ABORTED")
        self.reason = reason


class AbortSignal:
    """Tells work that it should stop. Made by an `AbortController` or `AbortSignal.any`."""

    __slots__ = ("_callbacks", "aborted", "reason")
    aborted: bool
    reason: object
    """What the aborter gave, by identity; meaningful only once `aborted` is true."""

    def __init__(self) -> None:
        self.aborted = False
        self.reason = None
        self._callbacks: dict[object, Callable[[], object]] = {}

    def throw_if_aborted(self) -> None:
        """Raises the reason itself if it is an exception, else `AbortedError` with that reason."""
        if self.aborted:
            raise self.exception()

    def exception(self) -> BaseException:
        """What `throw_if_aborted` raises."""
        reason = self.reason
        return reason if isinstance(reason, Exception) else AbortedError(reason)

    def on_abort(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` once on abort, at once if already aborted. Returns its remover.

        Callbacks run synchronously in registration order; one that raises is logged and does not
        stop the others.
        """
        if self.aborted:
            _run(callback)
            return lambda: None
        token = object()
        self._callbacks[token] = callback

        def remove() -> None:
            self._callbacks.pop(token, None)

        return remove

    @classmethod
    def any(cls, *signals: AbortSignal | None) -> FusedSignal:
        """A signal that follows the first of `signals` to abort. Release it when done."""
        return FusedSignal(signals)

    @asynccontextmanager
    async def scope(self) -> AsyncGenerator[None]:
        """Cancel what the block awaits as soon as the signal aborts, then raise its reason.

        Only for waits that this code started itself (a read, a sleep), never around plugin code.
        """
        import anyio  # the one place of this module that needs it; boot does not

        self.throw_if_aborted()
        with anyio.CancelScope() as scope:
            remove = self.on_abort(scope.cancel)
            try:
                yield
            finally:
                remove()
        if scope.cancelled_caught:
            self.throw_if_aborted()

    def _abort(self, reason: object) -> None:
        if self.aborted:
            return
        self.aborted = True
        self.reason = reason
        callbacks, self._callbacks = self._callbacks, {}
        for callback in callbacks.values():
            _run(callback)


class FusedSignal(AbortSignal):
    """Follows several signals; use as a context manager or call `release` to let them go."""

    __slots__ = ("_removers",)

    def __init__(self, signals: tuple[AbortSignal | None, ...]) -> None:
        super().__init__()
        self._removers: list[Callable[[], None]] = []
        for signal in signals:
            if signal is not None and not self.aborted:
                self._follow(signal)

    def _follow(self, signal: AbortSignal) -> None:
        self._removers.append(signal.on_abort(lambda: self._abort(signal.reason)))

    def release(self) -> None:
        """Stop following; later aborts of the sources are not seen."""
        for remove in self._removers:
            remove()
        self._removers.clear()

    def __enter__(self) -> FusedSignal:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.release()


class AbortController:
    """Owns one signal and the right to abort it."""

    __slots__ = ("signal",)
    signal: AbortSignal

    def __init__(self) -> None:
        self.signal = AbortSignal()

    def abort(self, reason: object = None) -> None:
        """Abort the signal; the first reason wins and later calls do nothing."""
        self.signal._abort(reason)  # noqa: SLF001 - the controller is the one that may


def _run(callback: Callable[[], object]) -> None:
    try:
        callback()
    except Exception:  # noqa: BLE001 - containment: one observer must not keep others from stopping
        _log.exception("an abort callback raised")
