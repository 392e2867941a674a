from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import msgspec
import pytest
from dsh_cordis import AbortController, Context
from dsh_llm import (
    LLM,
    LLM_ADAPTERS_UPDATED,
    LLM_STREAM,
    Aborted,
    Adapter,
    AdaptersUpdated,
    Effort,
    Failed,
    Finish,
    GenerateOptions,
    LlmCallConfig,
    LlmError,
    LlmFailure,
    LlmRuntime,
    ModelInfo,
    ModelSource,
    NormalRetry,
    ProviderInfo,
    ReasoningInfo,
    Stop,
    StreamChunk,
    TextBlock,
    TextDelta,
    create_assistant_message,
)
from msgspec import UNSET

pytestmark = pytest.mark.anyio


class Scripted(Adapter):
    """A real adapter that answers from a script."""

    def __init__(
        self,
        script: Callable[[GenerateOptions], AsyncIterator[StreamChunk]] | None = None,
        *,
        info: ModelInfo | None = None,
        retries: int = 5,
        reason: LlmFailure | None = None,
    ) -> None:
        self.script = script or (lambda options: says("hi"))
        self.info = info
        self.retries = retries
        self.reason = reason
        self.requests: list[GenerateOptions] = []

    def stream(self, options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        self.requests.append(options)
        return self.script(options)

    def provider_retry_policy(self, provider: str) -> NormalRetry:
        return NormalRetry(max_retries=self.retries)

    async def resolve_model(self, provider: str, model: str, signal: object) -> ModelInfo | None:
        return self.info

    def readiness(self, provider: str) -> LlmFailure | None:
        return self.reason


async def says(text: str) -> AsyncIterator[StreamChunk]:
    yield TextDelta(0, text)
    yield Finish(Stop())


def request(provider: str = "a", model: str = "m", **rest: object) -> GenerateOptions:
    return GenerateOptions(
        config=LlmCallConfig(provider=provider, model=model), messages=(), **rest
    )  # type: ignore[arg-type]


async def answer(stream: AsyncIterator[StreamChunk]) -> list[StreamChunk]:
    return [chunk async for chunk in stream]


def names(llm: LlmRuntime) -> list[str]:
    return [info.provider for info in llm.list_providers()]


def facts(**rest: object) -> ModelInfo:
    return ModelInfo(provider="a", id="m", name="M", **rest)  # type: ignore[arg-type]


async def test_a_batch_with_a_taken_name_registers_nothing(llm: LlmRuntime) -> None:
    llm.register_adapter(["b"], Scripted())
    with pytest.raises(LlmError) as caught:
        llm.register_adapter(["a", "b"], Scripted())
    assert caught.value.code == "DUPLICATE_ADAPTER"
    assert names(llm) == ["b"]


@pytest.mark.parametrize(
    ("providers", "code"),
    [([], "INVALID_ADAPTER"), ([""], "INVALID_ADAPTER"), (["a", "a"], "DUPLICATE_ADAPTER")],
)
async def test_unusable_names_are_refused(llm: LlmRuntime, providers: list[str], code: str) -> None:
    with pytest.raises(LlmError) as caught:
        llm.register_adapter(providers, Scripted())
    assert caught.value.code == code


async def test_metadata_about_another_provider_is_refused(llm: LlmRuntime) -> None:
    class Mislabelled(Scripted):
        def provider_info(self, provider: str) -> ProviderInfo:
            return ProviderInfo("other", "Other")

    with pytest.raises(LlmError) as caught:
        llm.register_adapter(["a"], Mislabelled())
    assert caught.value.code == "INVALID_ADAPTER"


async def test_replace_tells_once_and_never_shows_an_empty_registry(
    root: Context, llm: LlmRuntime
) -> None:
    registration = llm.register_adapter(["b"], Scripted())
    seen: list[tuple[AdaptersUpdated, list[str]]] = []
    root.on(LLM_ADAPTERS_UPDATED, lambda payload: seen.append((payload, names(llm))))
    registration.replace(["a"])
    assert seen == [(AdaptersUpdated(("a",)), ["a"])]


async def test_replace_keeps_its_own_names_and_refuses_those_of_others(llm: LlmRuntime) -> None:
    registration = llm.register_adapter(["a"], Scripted())
    llm.register_adapter(["z"], Scripted())
    registration.replace(["a", "b"])
    with pytest.raises(LlmError) as caught:
        registration.replace(["c", "z"])
    assert caught.value.code == "DUPLICATE_ADAPTER"
    assert names(llm) == ["z", "a", "b"]


async def test_replace_with_nothing_is_legal_and_after_release_it_is_not(llm: LlmRuntime) -> None:
    registration = llm.register_adapter(["a"], Scripted())
    registration.replace([])
    assert names(llm) == []
    registration()
    with pytest.raises(LlmError) as caught:
        registration.replace(["a"])
    assert caught.value.code == "REGISTRATION_DISPOSED"


async def test_unloading_a_plugin_removes_its_routes(root: Context, llm: LlmRuntime) -> None:
    def plugin(ctx: Context, config: object) -> None:
        ctx[LLM].register_adapter(["a"], Scripted())

    handle = await root.plugin(plugin, inject=[LLM])
    assert names(llm) == ["a"]
    await handle.dispose()
    assert names(llm) == []


async def test_a_failing_listener_of_updates_stops_nobody(root: Context, llm: LlmRuntime) -> None:
    def broken(payload: AdaptersUpdated) -> None:
        raise RuntimeError("broken")

    root.on(LLM_ADAPTERS_UPDATED, broken)
    llm.register_adapter(["a"], Scripted())
    assert names(llm) == ["a"]


async def test_the_policy_is_the_one_captured_at_registration(llm: LlmRuntime) -> None:
    adapter = Scripted(retries=1)
    llm.register_adapter(["a"], adapter)
    adapter.retries = 2
    assert llm.provider_retry_policy("a") == NormalRetry(max_retries=1)
    with pytest.raises(LlmError) as caught:
        llm.provider_retry_policy("b")
    assert caught.value.code == "NO_ADAPTER"


async def test_a_prepared_call_uses_the_adapter_and_policy_it_was_prepared_with(
    llm: LlmRuntime,
) -> None:
    registration = llm.register_adapter(["a"], Scripted(lambda o: says("old"), retries=1))
    call = await llm.prepare_call(LlmCallConfig(provider="a", model="m"))
    registration()
    llm.register_adapter(["a"], Scripted(lambda o: says("new"), retries=2))
    assert call.retry_policy == NormalRetry(max_retries=1)
    assert (await answer(call.stream(request())))[0] == TextDelta(0, "old")


async def test_a_prepared_call_is_for_one_request_of_its_own_configuration(llm: LlmRuntime) -> None:
    llm.register_adapter(["a"], Scripted())
    call = await llm.prepare_call(LlmCallConfig(provider="a", model="m"))
    with pytest.raises(LlmError) as caught:
        call.stream(request(model="other"))
    assert caught.value.code == "INVALID_PREPARED_CALL"
    call.stream(request())
    with pytest.raises(LlmError) as caught:
        call.stream(request())
    assert caught.value.code == "INVALID_PREPARED_CALL"


async def test_defaults_of_the_adapter_are_filled_and_marked(llm: LlmRuntime) -> None:
    efforts = (Effort("low", "Low"), Effort("high", "High"))
    info = facts(default_max_tokens=256_000, reasoning=ReasoningInfo(efforts, "high"))
    llm.register_adapter(["a"], Scripted(info=info))
    call = await llm.prepare_call(LlmCallConfig(provider="a", model="m"))
    assert (call.config.max_tokens, call.config.reasoning_effort) == (256_000, "high")
    assert msgspec.to_builtins(call.adapter_defaults) == {
        "reasoningEffort": True,
        "maxTokens": True,
    }


async def test_what_the_caller_names_wins_unmarked(llm: LlmRuntime) -> None:
    llm.register_adapter(["a"], Scripted(info=facts(default_max_tokens=256_000)))
    call = await llm.prepare_call(LlmCallConfig(provider="a", model="m", max_tokens=8192))
    assert call.config.max_tokens == 8192
    assert call.adapter_defaults.max_tokens is UNSET


@pytest.mark.parametrize("reasoning", [UNSET, ReasoningInfo((Effort("low", "Low"),))])
async def test_an_effort_that_the_model_does_not_list_is_refused(
    llm: LlmRuntime, reasoning: ReasoningInfo
) -> None:
    llm.register_adapter(["a"], Scripted(info=facts(reasoning=reasoning)))
    with pytest.raises(LlmError) as caught:
        await llm.prepare_call(LlmCallConfig(provider="a", model="m", reasoning_effort="max"))
    assert caught.value.code == "UNSUPPORTED_REASONING_EFFORT"


async def test_a_route_that_knows_no_model_prepares_without_capacity(llm: LlmRuntime) -> None:
    llm.register_adapter(["a"], Scripted())
    call = await llm.prepare_call(LlmCallConfig(provider="a", model="anything"))
    assert (call.context_window, call.input_modalities) == (UNSET, UNSET)


@pytest.mark.parametrize(
    ("info", "code"),
    [
        (ModelInfo(provider="b", id="m", name="M"), "INVALID_MODEL_INFO"),
        (ModelInfo(provider="a", id="other", name="M"), "INVALID_MODEL_INFO"),
        (facts(context_window=0), "INVALID_MODEL_CONTEXT"),
        (facts(default_max_tokens=-1), "INVALID_MODEL_MAX_TOKENS"),
        (facts(reasoning=ReasoningInfo(())), "INVALID_MODEL_REASONING"),
        (facts(reasoning=ReasoningInfo((Effort("a", "A"),), "b")), "INVALID_MODEL_REASONING"),
    ],
)
async def test_facts_that_cannot_be_right_are_refused(
    llm: LlmRuntime, info: ModelInfo, code: str
) -> None:
    llm.register_adapter(["a"], Scripted(info=info))
    with pytest.raises(LlmError) as caught:
        await llm.resolve_model_info("a", "m")
    assert caught.value.code == code


async def test_an_unknown_provider_answers_with_just_a_failure(llm: LlmRuntime) -> None:
    (only,) = await answer(llm.stream(request("nobody")))
    assert isinstance(only, Finish)
    assert isinstance(only.reason, Failed)
    assert only.reason.failure.code == "NO_ADAPTER"


async def test_what_an_adapter_raises_becomes_the_last_chunk(llm: LlmRuntime) -> None:
    async def script(options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        yield TextDelta(0, "half")
        raise ValueError("x")

    llm.register_adapter(["a"], Scripted(script))
    chunks = await answer(llm.stream(request()))
    assert chunks == [TextDelta(0, "half"), Finish(Failed(LlmFailure("x", "UNKNOWN")))]


async def test_an_adapter_that_raises_before_its_iterator_fails_in_band(llm: LlmRuntime) -> None:
    def script(options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        raise LlmError("no", code="UNSUPPORTED_OPTION")

    llm.register_adapter(["a"], Scripted(script))
    assert await answer(llm.stream(request())) == [
        Finish(Failed(LlmFailure("no", "UNSUPPORTED_OPTION")))
    ]


async def test_a_failure_under_an_aborted_signal_is_an_abort(llm: LlmRuntime) -> None:
    controller = AbortController()

    async def script(options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        yield TextDelta(0, "half")
        controller.abort()
        raise LlmError("the line broke", code="TRANSPORT")

    llm.register_adapter(["a"], Scripted(script))
    chunks = await answer(llm.stream(request(signal=controller.signal)))
    assert chunks[-1] == Finish(Aborted(LlmFailure("the line broke", "TRANSPORT")))


async def test_a_request_that_was_aborted_before_reaches_no_adapter(llm: LlmRuntime) -> None:
    controller = AbortController()
    controller.abort()
    adapter = Scripted()
    llm.register_adapter(["a"], adapter)
    (only,) = await answer(llm.stream(request(signal=controller.signal)))
    assert isinstance(only, Finish)
    assert isinstance(only.reason, Aborted)
    assert adapter.requests == []


async def test_an_error_after_the_finish_adds_no_second_finish(llm: LlmRuntime) -> None:
    async def script(options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        yield Finish(Stop())
        raise ValueError("late")

    llm.register_adapter(["a"], Scripted(script))
    assert await answer(llm.stream(request())) == [Finish(Stop())]


async def test_listeners_and_consumers_raise_to_the_caller(root: Context, llm: LlmRuntime) -> None:
    llm.register_adapter(["a"], Scripted())
    with pytest.raises(ZeroDivisionError):
        async for _ in llm.stream(request()):
            1 / 0  # noqa: B018

    async def broken(options: GenerateOptions, following: object) -> AsyncIterator[StreamChunk]:
        raise KeyError("listener")

    root.on(LLM_STREAM, broken)
    with pytest.raises(KeyError):
        await answer(llm.stream(request()))


async def test_a_listener_can_wrap_the_stream(root: Context, llm: LlmRuntime) -> None:
    llm.register_adapter(["a"], Scripted())

    async def loud(options: GenerateOptions, following: Callable[[], object]) -> object:
        inner = await following()  # type: ignore[misc]

        async def chunks() -> AsyncIterator[StreamChunk]:
            async for chunk in inner:
                yield TextDelta(0, chunk.text.upper()) if type(chunk) is TextDelta else chunk

        return chunks()

    root.on(LLM_STREAM, loud)
    assert (await answer(llm.stream(request())))[0] == TextDelta(0, "HI")


async def test_a_listener_that_raises_the_end_of_a_stream_is_no_empty_answer(
    root: Context, llm: LlmRuntime
) -> None:
    llm.register_adapter(["a"], Scripted())

    async def ending(_options: GenerateOptions, _following: Callable[[], object]) -> object:
        raise StopAsyncIteration

    root.on(LLM_STREAM, ending)
    with pytest.raises(RuntimeError, match="llm/stream"):
        await answer(llm.stream(request()))


async def test_a_listener_can_send_a_request_to_another_route(
    root: Context, llm: LlmRuntime
) -> None:
    llm.register_adapter(["a"], Scripted(lambda o: says("from a")))
    llm.register_adapter(["b"], Scripted(lambda o: says("from b")))

    async def reroute(options: GenerateOptions, following: Callable[[], object]) -> object:
        if options.config.provider != "a":
            return await following()  # type: ignore[misc]
        config = msgspec.structs.replace(options.config, provider="b")
        return llm.stream(msgspec.structs.replace(options, config=config))

    root.on(LLM_STREAM, reroute)
    assert (await answer(llm.stream(request())))[0] == TextDelta(0, "from b")


async def test_a_request_cannot_be_changed_in_place(llm: LlmRuntime) -> None:
    options = request()
    with pytest.raises(AttributeError):
        options.system = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        options.config.model = "other"  # type: ignore[misc]


async def test_leaving_early_closes_the_adapters_iterator(llm: LlmRuntime) -> None:
    closed: list[bool] = []

    async def script(options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        try:
            yield TextDelta(0, "one")
            yield TextDelta(0, "two")
        finally:
            closed.append(True)

    llm.register_adapter(["a"], Scripted(script))
    stream = llm.stream(request())
    assert await anext(stream) == TextDelta(0, "one")
    await stream.aclose()  # type: ignore[attr-defined]
    assert closed == [True]
    assert [chunk async for chunk in stream] == []


async def test_a_failed_iterator_is_closed_and_not_asked_again(llm: LlmRuntime) -> None:
    class Broken:
        asked = closed = 0

        def __aiter__(self) -> Broken:
            return self

        async def __anext__(self) -> StreamChunk:
            self.asked += 1
            raise ValueError("x")

        async def aclose(self) -> None:
            self.closed += 1

    broken = Broken()
    llm.register_adapter(["a"], Scripted(lambda options: broken))  # type: ignore[arg-type, return-value]
    await answer(llm.stream(request()))
    assert (broken.asked, broken.closed) == (1, 1)


async def test_errors_of_closing_are_raised(llm: LlmRuntime) -> None:
    async def script(options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        try:
            yield TextDelta(0, "one")
        finally:
            raise OSError("cannot close")

    llm.register_adapter(["a"], Scripted(script))
    stream = llm.stream(request())
    await anext(stream)
    with pytest.raises(OSError, match="cannot close"):
        await stream.aclose()  # type: ignore[attr-defined]


async def test_replay_state_reaches_only_the_adapter_it_came_from(llm: LlmRuntime) -> None:
    mine, other = Scripted(), Scripted()
    llm.register_adapter(["a", "a2"], mine)
    llm.register_adapter(["b"], other)
    source = ModelSource("a", "m", {"signature": "s"})
    message = create_assistant_message([TextBlock("x")], source=source)
    for provider in ("a2", "b"):
        await answer(llm.stream(msgspec.structs.replace(request(provider), messages=(message,))))
    assert mine.requests[0].messages == (message,)
    (stripped,) = other.requests[0].messages
    assert stripped.source == ModelSource("a", "m")
    assert (stripped.id, stripped.content) == (message.id, message.content)


async def test_adapter_that_reads_no_replay_state_gets_the_conversation_as_it_is(
    llm: LlmRuntime,
) -> None:
    class Plain(Scripted):
        reads_replay_state = False

    adapter = Plain()
    llm.register_adapter(["a"], adapter)
    source = ModelSource("b", "m", {"signature": "s"})
    messages = (create_assistant_message([TextBlock("x")], source=source),)
    await answer(llm.stream(msgspec.structs.replace(request("a"), messages=messages)))
    assert adapter.requests[0].messages is messages


async def test_readiness_is_the_adapters_word(llm: LlmRuntime) -> None:
    missing = LlmFailure("set X_KEY", "MISSING_CREDENTIAL")
    assert llm.readiness() == LlmFailure("no model provider is configured", "NO_ADAPTER")
    llm.register_adapter(["a"], Scripted(reason=missing))
    assert llm.readiness() == llm.readiness("a") == missing
    llm.register_adapter(["b"], Scripted())
    assert llm.readiness() is None
    assert llm.readiness("a") == missing
    unknown = llm.readiness("c")
    assert unknown is not None
    assert unknown.code == "NO_ADAPTER"


async def test_the_runtime_says_of_each_provider_whether_it_could_be_asked(llm: LlmRuntime) -> None:
    assert [finding.level for finding in llm.diagnose()] == ["error"]
    llm.register_adapter(["a"], Scripted(reason=LlmFailure("set X_KEY", "MISSING_CREDENTIAL")))
    ready = Scripted()
    llm.register_adapter(["b"], ready)
    assert [(finding.level, finding.subject) for finding in llm.diagnose()] == [
        ("error", "provider a"),
        ("ok", "provider b"),
    ]
    assert next(iter(llm.diagnose())).message == "set X_KEY"
    assert ready.requests == []
