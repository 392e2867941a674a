"""Waiting and trying again, as the agent's answer to a failed request."""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
from dsh_agent import Retry
from dsh_cordis import AbortController, AbortSignal
from dsh_llm import AlwaysRetry
from dsh_session import STEP_START
from msgspec import UNSET

from ._events import LLM_RETRY, LLM_RETRY_STARTED, RetryId, RetryPlanned, RetryStarted
from ._policy import delay_before, mode_of, policy_key

if TYPE_CHECKING:
    from dsh_agent import RequestFailed
    from dsh_cordis import Next
    from dsh_llm import NormalRetry, RetryPolicy
    from dsh_session import Session

_log = logging.getLogger("dsh.llm_retry")


class _Attempt(msgspec.Struct, frozen=True):
    """The next retry of a chain."""

    retry_id: RetryId
    number: int


class Recovery:
    """Answers failed requests. Dispose it: waits end, and what is under way is waited for."""

    def __init__(self, sample: Callable[[], float] = random.random) -> None:
        """`sample` gives numbers in [0, 1] that spread the delays."""
        self._sample = sample
        self._stop = AbortController()
        self._active = 0
        self._rested = asyncio.Event()

    async def on_request_error(
        self,
        failed: RequestFailed,
        following: Next[Retry | None],
    ) -> Retry | None:
        """Retry as the route's policy says, or leave the failure to the others."""
        if self._stop.signal.aborted:
            return None
        policy = failed.retry_policy
        if policy is None:
            return await following()
        with self._working():
            if isinstance(policy, AlwaysRetry):
                return await self._always(failed, policy, following)
            return await self._normal(failed, policy, following)

    async def dispose(self) -> None:
        """End all waits without a retry and return once nothing is under way."""
        self._stop.abort("dsh-llm-retry was unloaded")
        if self._active:
            await self._rested.wait()

    async def _normal(
        self, failed: RequestFailed, policy: NormalRetry, following: Next[Retry | None]
    ) -> Retry | None:
        if failed.failure.code not in policy.retryable_codes:
            return await following()
        attempt = _next_attempt(failed, policy_key(policy))
        if attempt.number > policy.max_retries:
            return await following()
        delay_ms = self._delay(failed, policy, attempt)
        if delay_ms is None:
            return await following()
        return await self._retry(failed, policy, attempt, delay_ms)

    async def _always(
        self, failed: RequestFailed, policy: AlwaysRetry, following: Next[Retry | None]
    ) -> Retry | None:
        # Whoever can repair the cause goes first; a retry alone would only fail again.
        try:
            answer = await following()
        except Exception:  # noqa: BLE001 - containment: an unattended run survives a broken listener
            _log.exception("recovering from a failed model request failed itself")
            answer = None
        if failed.signal.aborted or self._stop.signal.aborted:
            return None
        if answer is not None:
            return answer
        attempt = _next_attempt(failed, policy_key(policy))
        delay_ms = self._delay(failed, policy, attempt)
        return None if delay_ms is None else await self._retry(failed, policy, attempt, delay_ms)

    def _delay(self, failed: RequestFailed, policy: RetryPolicy, attempt: _Attempt) -> float | None:
        return delay_before(policy, failed.failure, retry=attempt.number, sample=self._sample())

    async def _retry(
        self, failed: RequestFailed, policy: RetryPolicy, attempt: _Attempt, delay_ms: float
    ) -> Retry | None:
        session: Session = failed.agent.session
        if failed.signal.aborted:
            return None
        session.append(
            LLM_RETRY,
            RetryPlanned(
                retry_id=attempt.retry_id,
                turn=failed.turn,
                step=failed.step,
                provider=failed.provider,
                mode=mode_of(policy),
                policy_key=policy_key(policy),
                retry=attempt.number,
                max_retries=UNSET if isinstance(policy, AlwaysRetry) else policy.max_retries,
                delay_ms=delay_ms,
                failure=failed.failure,
            ),
        )
        if not await self._waited(delay_ms, failed.signal):
            return None
        started = RetryStarted(
            retry_id=attempt.retry_id, turn=failed.turn, step=failed.step, retry=attempt.number
        )
        session.append(LLM_RETRY_STARTED, started)
        return Retry()

    async def _waited(self, delay_ms: float, signal: AbortSignal) -> bool:
        """Whether the whole delay passed without anybody aborting it."""
        with AbortSignal.any(signal, self._stop.signal) as stopped:
            wake = asyncio.Event()
            stopped.on_abort(wake.set)
            try:
                async with asyncio.timeout(delay_ms / 1000):
                    await wake.wait()
            except TimeoutError:
                # The usual case: nobody aborted.
                pass
            return not stopped.aborted

    @contextmanager
    def _working(self) -> Generator[None]:
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1
            if not self._active and self._stop.signal.aborted:
                self._rested.set()


def _next_attempt(failed: RequestFailed, key: str) -> _Attempt:
    """The retry after the last one of this step, provider and policy.

    Looks back no further than the step's own start.
    """
    for event in reversed(failed.agent.session.events):
        if event.type == STEP_START.name:
            break
        if not LLM_RETRY.of(event):
            continue
        planned = event.data
        if (planned.provider, planned.policy_key) == (failed.provider, key):
            return _Attempt(planned.retry_id, planned.retry + 1)
    return _Attempt(RetryId(str(uuid.uuid4())), 1)
