from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec
import pytest
from dsh_agent import (
    AGENT_REQUEST,
    AGENT_REQUEST_ERROR,
    AgentOptions,
    RequestFailed,
    RequestStep,
    Retry,
)
from dsh_agent_loop_testkit import (
    AgentKit,
    ScriptedAdapter,
    TurnEndedError,
    agent_kit,
    failed_reply,
)
from dsh_cordis import AbortController, ConfigError, Context
from dsh_llm import (
    LLM,
    AlwaysRetry,
    BlockStart,
    Failed,
    Finish,
    LlmCallConfig,
    LlmFailure,
    NormalRetry,
    RetryPolicy,
    TextDelta,
    create_user_message,
    text_of,
)
from dsh_llm_retry import LLM_RETRY, LLM_RETRY_STARTED, LlmRetry, Recovery, policy_key
from dsh_session import (
    SESSION_EVENT,
    STEP_START,
    TURN_END,
    ByUser,
    SessionAppended,
    TurnAborted,
    TurnFailed,
)

pytestmark = pytest.mark.anyio

QUICK = NormalRetry(max_retries=2, initial_delay_ms=1, max_delay_ms=2)
SLOW = NormalRetry(initial_delay_ms=600_000, max_delay_ms=600_000)
BUSY = failed_reply("busy", code="SERVER", status=503)


class Model(ScriptedAdapter):
    """A scripted model with a retry policy."""

    def __init__(self, replies: Iterable[Any], policy: RetryPolicy) -> None:
        super().__init__(replies)
        self.policy = policy

    def provider_retry_policy(self, provider: str) -> RetryPolicy:
        return self.policy


@dataclass
class Conversation:
    """An agent with a model of its own and the plugin."""

    kit: AgentKit
    model: Model
    retry: Any

    def retries(self) -> list[Any]:
        return self.kit.of(LLM_RETRY)

    def asked(self) -> int:
        return len(self.model.requests)

    async def failure(self) -> Any:
        """What the turn fails with."""
        with pytest.raises(TurnEndedError) as caught:
            await self.kit.say("go")
        assert isinstance(caught.value.reason, TurnFailed)
        return caught.value.reason.error


@asynccontextmanager
async def conversation(
    replies: Iterable[Any],
    policy: RetryPolicy = QUICK,
    *,
    inner: Callable[[Context], object] | None = None,
) -> AsyncIterator[Conversation]:
    """Listeners of `inner` are closer to the request than the plugin."""
    model = Model(replies, policy)

    def provider(ctx: Context, config: object) -> None:
        ctx[LLM].register_adapter(["one", "two"], model)

    provider.inject = (LLM,)  # type: ignore[attr-defined]
    options = AgentOptions(provider="one", model="m")
    async with agent_kit(plugins=[provider], options=options) as kit:
        retry = await kit.root.plugin(LlmRetry)
        if inner is not None:
            inner(kit.root)
        yield Conversation(kit, model, retry)


async def test_a_failed_request_is_made_again_in_the_same_step() -> None:
    async with conversation([BUSY, BUSY, "done"]) as talk:
        assert await talk.kit.say("go") == "done"
        assert [planned.retry for planned in talk.retries()] == [1, 2]
        assert len({planned.retry_id for planned in talk.retries()}) == 1
        assert len(talk.kit.of(STEP_START)) == 1
        logged = [kind for kind in talk.kit.logged() if kind.startswith("llm/")]
        assert logged == ["llm/retry", "llm/retry-started"] * 2
        first, second, third = talk.model.requests
        assert first.messages == second.messages == third.messages


async def test_the_log_says_why_and_how() -> None:
    async with conversation([BUSY, "done"]) as talk:
        await talk.kit.say("go")
        (planned,) = talk.retries()
        assert msgspec.to_builtins(planned) == {
            "retryId": planned.retry_id,
            "turn": 1,
            "step": 1,
            "provider": "one",
            "mode": "normal",
            "policyKey": policy_key(QUICK),
            "retry": 1,
            "maxRetries": 2,
            "delayMs": planned.delay_ms,
            "failure": {"message": "busy", "code": "SERVER", "status": 503},
        }
        (started,) = talk.kit.of(LLM_RETRY_STARTED)
        assert (started.retry_id, started.retry) == (planned.retry_id, 1)


async def test_a_spent_budget_ends_the_turn_with_the_last_failure() -> None:
    replies = [failed_reply(f"busy {n}", code="SERVER") for n in (1, 2, 3)]
    async with conversation(replies) as talk:
        assert (await talk.failure()).message == "busy 3"
        assert talk.asked() == 3
        assert len(talk.retries()) == 2
        assert len(talk.kit.of(STEP_START)) == 1


async def test_partial_text_of_a_failed_attempt_appears_in_no_later_request() -> None:
    failed = Finish(Failed(LlmFailure("cut", "TRANSPORT")))
    half = (BlockStart(0, "text"), TextDelta(0, "half an answer"), failed)
    async with conversation([half, "whole", "more"]) as talk:
        assert await talk.kit.say("go") == "whole"
        await talk.kit.say("on")
        texts = [text_of(m.content) for request in talk.model.requests for m in request.messages]
        assert not any("half" in text for text in texts)


@pytest.mark.parametrize("code", ["AUTH", "QUOTA", "INVALID_REQUEST", "HTTP_404"])
async def test_what_will_not_heal_is_not_tried_again(code: str) -> None:
    async with conversation([failed_reply("no", code=code), "never"]) as talk:
        assert (await talk.failure()).code == code
        assert (talk.asked(), talk.retries()) == (1, [])


@pytest.mark.parametrize(
    "code",
    ["EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "STREAM_CLOSED", "TIMEOUT", "TRANSPORT"],
)
async def test_what_may_heal_is_tried_again(code: str) -> None:
    async with conversation([failed_reply("no", code=code), "done"]) as talk:
        assert await talk.kit.say("go") == "done"


async def test_always_retries_whatever_failed_however_often() -> None:
    policy = AlwaysRetry(initial_delay_ms=1, max_delay_ms=1)
    replies = [failed_reply("no", code="AUTH")] * 8
    async with conversation([*replies, "done"], policy) as talk:
        assert await talk.kit.say("go") == "done"
        assert [planned.retry for planned in talk.retries()] == list(range(1, 9))
        assert all(planned.max_retries is msgspec.UNSET for planned in talk.retries())


async def test_a_provider_that_wants_a_longer_wait_ends_the_turn() -> None:
    failure = LlmFailure("slow down", "RATE_LIMIT", provider_retry_after_ms=10_001)
    policy = NormalRetry(max_delay_ms=10_000)
    async with conversation([(Finish(Failed(failure)),)], policy) as talk:
        assert (await talk.failure()).code == "RATE_LIMIT"
        assert talk.retries() == []


async def test_what_the_provider_asks_for_is_waited() -> None:
    failure = LlmFailure("slow down", "RATE_LIMIT", provider_retry_after_ms=3)
    policy = NormalRetry(jitter_ratio=1)
    async with conversation([(Finish(Failed(failure)),), "done"], policy) as talk:
        await talk.kit.say("go")
        assert talk.retries()[0].delay_ms == 3


async def test_another_provider_counts_from_one_again() -> None:
    def alternate(root: Context) -> None:
        attempts: list[int] = []

        async def reroute(step: RequestStep, following: Any) -> LlmCallConfig:
            config = await following()
            attempts.append(1)
            provider = "two" if len(attempts) == 2 else "one"
            return msgspec.structs.replace(config, provider=provider)

        root.on(AGENT_REQUEST, reroute)

    async with conversation([BUSY, BUSY, "done"], inner=alternate) as talk:
        await talk.kit.say("go")
        seen = [(planned.provider, planned.retry) for planned in talk.retries()]
        assert seen == [("one", 1), ("two", 1)]
        assert len({planned.retry_id for planned in talk.retries()}) == 2


async def waiting(talk: Conversation) -> None:
    """Return once the plugin waits before a retry."""
    planned = anyio.Event()

    def notice(appended: SessionAppended) -> None:
        if appended.event.type == LLM_RETRY.name:
            planned.set()

    talk.kit.root.on(SESSION_EVENT, notice)
    talk.kit.agent.followup(create_user_message("go"))
    await planned.wait()


async def test_a_cancelled_wait_ends_the_turn_as_aborted_after_one_request() -> None:
    async with conversation([BUSY, "never"], SLOW) as talk:
        await waiting(talk)
        talk.kit.agent.cancel(ByUser())
        await talk.kit.agent.when_idle()
        (end,) = talk.kit.of(TURN_END)
        assert isinstance(end.reason, TurnAborted)
        assert talk.asked() == 1
        assert talk.kit.of(LLM_RETRY_STARTED) == []


async def test_unloading_ends_a_wait_with_the_original_failure() -> None:
    async with conversation([BUSY, "never"], SLOW) as talk:
        await waiting(talk)
        await talk.retry.dispose()
        await talk.kit.agent.when_idle()
        (end,) = talk.kit.of(TURN_END)
        assert isinstance(end.reason, TurnFailed)
        assert end.reason.error.code == "SERVER"
        assert talk.kit.of(LLM_RETRY_STARTED) == []


async def test_without_the_plugin_a_request_is_made_once() -> None:
    async with conversation([BUSY, "never"]) as talk:
        await talk.retry.dispose()
        await talk.failure()
        assert talk.asked() == 1


def failed_in(talk: Conversation, policy: RetryPolicy | None) -> RequestFailed:
    return RequestFailed(
        agent=talk.kit.agent,
        turn=1,
        step=1,
        provider="one",
        failure=LlmFailure("busy", "SERVER"),
        retry_policy=policy,
        signal=AbortController().signal,
    )


async def test_a_route_without_policy_is_left_to_others() -> None:
    async def others() -> Retry:
        return answer

    answer = Retry()
    async with conversation([]) as talk:
        recovered = await Recovery().on_request_error(failed_in(talk, None), others)
        assert recovered is answer
        assert talk.retries() == []


async def test_a_listener_kept_past_its_unloading_asks_nobody() -> None:
    async def others() -> Retry:
        raise AssertionError("asked")

    recovery = Recovery()
    await recovery.dispose()
    async with conversation([]) as talk:
        assert await recovery.on_request_error(failed_in(talk, QUICK), others) is None


ALWAYS = AlwaysRetry(initial_delay_ms=1, max_delay_ms=1)


async def test_always_lets_others_repair_the_cause_first() -> None:
    def repair(root: Context) -> None:
        async def repaired(failed: RequestFailed, following: Any) -> Retry:
            return Retry()

        root.on(AGENT_REQUEST_ERROR, repaired)

    async with conversation([BUSY, "done"], ALWAYS, inner=repair) as talk:
        assert await talk.kit.say("go") == "done"
        assert talk.retries() == []


async def test_always_survives_a_listener_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    def broken(root: Context) -> None:
        async def breaks(failed: RequestFailed, following: Any) -> Retry:
            raise RuntimeError("cannot repair")

        root.on(AGENT_REQUEST_ERROR, breaks)

    async with conversation([BUSY, "done"], ALWAYS, inner=broken) as talk:
        assert await talk.kit.say("go") == "done"
        assert len(talk.retries()) == 1
    assert "cannot repair" in caplog.text


async def test_always_obeys_an_abort_that_comes_while_others_try() -> None:
    def cancelling(root: Context) -> None:
        async def cancels(failed: RequestFailed, following: Any) -> Retry:
            failed.agent.cancel(ByUser())
            return Retry()

        root.on(AGENT_REQUEST_ERROR, cancels)

    async with conversation([BUSY, "never"], ALWAYS, inner=cancelling) as talk:
        with pytest.raises(TurnEndedError) as caught:
            await talk.kit.say("go")
        assert isinstance(caught.value.reason, TurnAborted)
        assert (talk.asked(), talk.retries()) == (1, [])


async def test_the_plugin_has_nothing_to_configure() -> None:
    async with Context() as root:
        with pytest.raises(ConfigError, match="maxRetries"):
            await root.plugin(LlmRetry, {"maxRetries": 3})
