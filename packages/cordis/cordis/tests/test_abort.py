"""Cooperative cancellation."""

from __future__ import annotations

import asyncio

import pytest
from dsh_cordis import AbortController, AbortedError, AbortSignal

pytestmark = pytest.mark.anyio


def test_first_reason_wins_and_is_kept_by_identity():
    controller, first = AbortController(), object()
    controller.abort(first)
    controller.abort("second")
    assert controller.signal.aborted
    assert controller.signal.reason is first


def test_exception_reason_is_raised_itself_any_other_inside_an_aborted_error():
    controller, error = AbortController(), ValueError("mine")
    controller.abort(error)
    with pytest.raises(ValueError, match="mine") as caught:
        controller.signal.throw_if_aborted()
    assert caught.value is error
    other = AbortController()
    other.abort("user")
    with pytest.raises(AbortedError, match="aborted: user") as wrapped:
        other.signal.throw_if_aborted()
    assert (wrapped.value.code, wrapped.value.reason) == ("ABORTED", "user")


def test_callbacks_run_once_in_order_and_a_removed_one_does_not(caplog):
    controller, log = AbortController(), []
    signal = controller.signal
    signal.on_abort(lambda: log.append("a"))
    signal.on_abort(lambda: 1 // 0)
    remove = signal.on_abort(lambda: log.append("removed"))
    signal.on_abort(lambda: log.append("b"))
    remove()
    controller.abort()
    controller.abort()
    assert log == ["a", "b"]
    assert "an abort callback raised" in caplog.text
    signal.on_abort(lambda: log.append("at once"))
    assert log == ["a", "b", "at once"]


def test_fused_signal_follows_the_first_source_until_released():
    one, two, three = AbortController(), AbortController(), AbortController()
    fused = AbortSignal.any(one.signal, None, two.signal)
    two.abort("two")
    one.abort("one")
    assert fused.reason == "two"
    with AbortSignal.any(three.signal) as released:
        pass
    three.abort()
    assert not released.aborted


async def test_scope_cancels_the_wait_inside_and_raises_the_reason():
    controller = AbortController()
    asyncio.get_running_loop().call_soon(controller.abort, "stop")
    with pytest.raises(AbortedError) as caught:
        async with controller.signal.scope():
            await asyncio.sleep(3600)
    assert caught.value.reason == "stop"


async def test_scope_of_a_quiet_signal_changes_nothing():
    async with AbortController().signal.scope():
        await asyncio.sleep(0)
