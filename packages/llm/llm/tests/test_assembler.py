from __future__ import annotations

import pytest
from dsh_llm import (
    Aborted,
    BlockAssembler,
    BlockEnd,
    BlockStart,
    Finish,
    LlmError,
    LlmFailure,
    MaxTokens,
    ModelSource,
    ReasoningBlock,
    ReasoningDelta,
    ReplayState,
    Stop,
    StreamChunk,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    ToolCalls,
    Usage,
    UsageChunk,
)
from hypothesis import given, settings
from hypothesis import strategies as st


def assembled(*chunks: StreamChunk) -> BlockAssembler:
    assembler = BlockAssembler()
    for chunk in chunks:
        assembler.push(chunk)
    return assembler


def test_deltas_alone_make_blocks_in_order_of_first_sight() -> None:
    assembler = assembled(
        TextDelta(5, "he"), ReasoningDelta(2, "why"), TextDelta(5, "llo"), Finish(Stop())
    )
    assert assembler.blocks() == (TextBlock("hello"), ReasoningBlock("why"))
    assert assembler.blocks() == assembler.blocks()


def test_a_second_end_and_later_deltas_of_a_block_are_ignored() -> None:
    assembler = assembled(
        BlockStart(0, "text"),
        TextDelta(0, "raw"),
        BlockEnd(0, TextBlock("final")),
        BlockEnd(0, TextBlock("other")),
        TextDelta(0, "late"),
    )
    assert assembler.blocks() == (TextBlock("final"),)


def test_a_second_start_of_a_block_is_ignored() -> None:
    assembler = assembled(BlockStart(0, "text"), TextDelta(0, "a"), BlockStart(0, "reasoning"))
    assert assembler.blocks() == (TextBlock("a"),)


def test_a_call_without_id_or_name_gets_stand_ins() -> None:
    assembler = assembled(ToolCallDelta(3, "", arguments_delta="{"))
    assert assembler.blocks() == (ToolCallBlock("call-3", "", "{"),)


def test_fragments_of_calls_are_joined_by_index() -> None:
    assembler = assembled(
        ToolCallDelta(0, "c1", "bash", '{"a"'),
        ToolCallDelta(1, "c2", "read", "{}"),
        ToolCallDelta(0, "c1", arguments_delta=":1}"),
        Finish(ToolCalls()),
    )
    assert assembler.blocks() == (
        ToolCallBlock("c1", "bash", '{"a":1}'),
        ToolCallBlock("c2", "read", "{}"),
    )


def test_an_open_block_of_an_unknown_type_cannot_be_read() -> None:
    assembler = assembled(BlockStart(0, "hologram"))
    with pytest.raises(LlmError) as caught:
        assembler.blocks()
    assert caught.value.code == "MALFORMED_RESPONSE"
    assert assembler.interrupted_blocks() == ()


def three_blocks(entries: tuple[str, ...]) -> BlockAssembler:
    return assembled(
        TextDelta(0, "t"),
        ToolCallDelta(1, "c1", "bash", "{}"),
        ReasoningDelta(2, "r"),
        Finish(MaxTokens(), ReplayState("envelope", entries)),
    )


def test_the_output_limit_drops_calls_and_their_replay_entries() -> None:
    assembler = three_blocks(("a", "b", "c"))
    assert assembler.blocks() == (TextBlock("t"), ReasoningBlock("r"))
    assert assembler.replay_state == ReplayState("envelope", ("a", "c"))


def test_replay_entries_that_do_not_match_the_blocks_void_the_envelope() -> None:
    assembler = three_blocks(("a",))
    assert assembler.replay_state is None
    assert len(assembler.blocks()) == 2


def test_an_envelope_without_entries_passes_through() -> None:
    state = ReplayState("envelope")
    assembler = assembled(TextDelta(0, "t"), Finish(Stop(), state))
    assert assembler.replay_state == state
    source = assembler.message(ModelSource("p", "m")).source
    assert source == ModelSource("p", "m", {"response": "envelope"})


def test_the_last_usage_and_finish_count_and_no_finish_is_a_stop() -> None:
    assert isinstance(assembled(TextDelta(0, "x")).finish, Stop)
    assembler = assembled(
        UsageChunk(Usage(input_tokens=1)),
        UsageChunk(Usage(input_tokens=2)),
        Finish(Stop()),
        Finish(ToolCalls()),
    )
    assert assembler.usage == Usage(input_tokens=2)
    assert isinstance(assembler.finish, ToolCalls)


def test_what_is_kept_of_an_interrupted_stream_is_visible_text_alone() -> None:
    assembler = assembled(
        BlockEnd(0, ReasoningBlock("thought")),
        TextDelta(1, " \n"),
        TextDelta(2, "half an ans"),
        ToolCallDelta(3, "c1", "bash", "{}"),
        BlockEnd(4, ToolCallBlock("c2", "bash", "{}")),
        Finish(Aborted(LlmFailure("stopped", "ABORTED"))),
    )
    assert assembler.interrupted_blocks() == (ReasoningBlock("thought"), TextBlock("half an ans"))


def test_an_assembled_message_is_the_models() -> None:
    message = assembled(TextDelta(0, "x")).message(ModelSource("p", "m"))
    assert (message.role, message.content) == ("assistant", (TextBlock("x"),))


INDEX = st.integers(0, 4)
CHUNKS = st.one_of(
    st.builds(BlockStart, INDEX, st.sampled_from(["text", "reasoning", "tool-call"])),
    st.builds(TextDelta, INDEX, st.text(max_size=3)),
    st.builds(ReasoningDelta, INDEX, st.text(max_size=3)),
    st.builds(ToolCallDelta, INDEX, st.text(max_size=3)),
    st.builds(BlockEnd, INDEX, st.builds(TextBlock, st.text(max_size=3))),
)


@settings(deadline=None)
@given(st.lists(CHUNKS, max_size=20))
def test_there_are_never_more_blocks_than_indexes(chunks: list[StreamChunk]) -> None:
    assembler = assembled(*chunks)
    assert len(assembler.blocks()) <= len({chunk.index for chunk in chunks})  # type: ignore[union-attr]
    assert assembler.blocks() == assembler.blocks()
