"""From bytes to chunks, whatever the pieces in which they arrive."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
from dsh_llm import BlockAssembler, LlmError, StreamChunk
from dsh_llm_deepseek._sse import DONE, SseParser
from dsh_llm_deepseek._translate import Translator
from dsh_llm_deepseek._wire import decode_chunk
from hypothesis import given, settings
from hypothesis import strategies as st


def translated(pieces: list[bytes]) -> list[StreamChunk | str]:
    """The chunks, and the code of the failure if there is one."""
    parser, translator = SseParser(), Translator(set)
    out: list[Any] = []
    try:
        for piece in pieces:
            for payload in parser.feed(piece):
                if payload == DONE:
                    translator.finish(out)
                    return out
                translator.push(decode_chunk(payload), out)
    except LlmError as error:
        out.append(error.code)
    return out


TEXT = st.text(max_size=6) | st.none()
FUNCTION = st.fixed_dictionaries({}, optional={"name": TEXT, "arguments": TEXT}) | st.none()
CALL = st.fixed_dictionaries(
    # Distinct ids: a call that lacks one gets a random id, which no two runs share.
    {"index": st.integers(0, 2) | st.none(), "function": FUNCTION},
    optional={"id": st.uuids().map(str)},
)
DELTA = st.fixed_dictionaries(
    {},
    optional={
        "content": TEXT,
        "reasoning_content": TEXT,
        "tool_calls": st.lists(CALL | st.none(), max_size=2) | st.none(),
    },
)
CHOICE = st.fixed_dictionaries(
    {"delta": DELTA | st.none()},
    optional={"finish_reason": st.sampled_from(["stop", "length", "tool_calls", "odd", None])},
)
USAGE = st.fixed_dictionaries({"prompt_tokens": st.integers(0, 99) | st.none()})
CHUNK = (
    st.fixed_dictionaries(
        {"choices": st.lists(CHOICE | st.none(), max_size=2) | st.none()},
        optional={"usage": USAGE | st.none(), "x_vendor": st.integers()},
    )
    | st.none()
)
END = st.sampled_from([b"\n\n", b"\r\n\r\n", b"\r\r", b"\n: keep-alive\n\n"])
STREAM = st.lists(st.tuples(CHUNK, END), max_size=6).map(
    lambda frames: (
        b"".join(b"data: " + msgspec.json.encode(c) + e for c, e in frames) + b"data: [DONE]\n\n"
    )
)


def without_ids(chunks: list[Any]) -> list[Any]:
    """Ids made up by the adapter are random; everything else must agree."""
    plain = msgspec.to_builtins(chunks)
    for chunk in plain:
        if isinstance(chunk, dict):
            chunk.pop("id", None)
            chunk.get("block", {}).pop("id", None)
    return plain


@settings(deadline=None)
@given(stream=STREAM, cuts=st.lists(st.integers(0, 400), max_size=6))
def test_any_split_of_the_bytes_gives_the_same_chunks(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    assert without_ids(translated(pieces)) == without_ids(translated([stream]))


@settings(deadline=None)
@given(stream=STREAM)
def test_an_answer_that_ends_well_is_whole(stream: bytes) -> None:
    chunks = translated([stream])
    if isinstance(chunks[-1], str):
        return
    deltas, ends = BlockAssembler(), BlockAssembler()
    for chunk in chunks:
        ends.push(chunk)
        if type(chunk).__name__ != "BlockEnd":
            deltas.push(chunk)
    assert deltas.blocks() == ends.blocks()
    ids = [block.id for block in ends.blocks() if hasattr(block, "id")]
    assert all(ids)
    assert len(set(ids)) == len(ids)


@settings(deadline=None)
@given(payload=st.binary(max_size=40))
def test_any_payload_is_a_chunk_or_a_named_failure(payload: bytes) -> None:
    out: list[StreamChunk] = []
    try:
        Translator(set).push(decode_chunk(payload), out)
    except LlmError as error:
        assert error.code
