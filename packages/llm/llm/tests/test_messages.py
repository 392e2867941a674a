from __future__ import annotations

import pytest
from dsh_llm import (
    ContentBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolSource,
    bounded_summary,
    create_tool_result_message,
    create_user_message,
    text_of,
)
from dsh_lossless_json import decoder, encode


def test_a_tool_result_names_its_call_in_source_and_block() -> None:
    message = create_tool_result_message("c1", [TextBlock("out")], is_error=False)
    assert message.role == "user"
    assert message.source == ToolSource("c1")
    assert message.content == (ToolResultBlock("c1", (TextBlock("out"),), False),)


def test_messages_do_not_change_and_do_not_follow_their_input() -> None:
    blocks: list[ContentBlock] = [TextBlock("a")]
    message = create_user_message(blocks)
    blocks.append(TextBlock("b"))
    assert message.content == (TextBlock("a"),)
    with pytest.raises(AttributeError):
        message.role = "system"  # type: ignore[misc]


def test_every_message_has_an_id_of_its_own() -> None:
    assert create_user_message("x").id != create_user_message("x").id


def test_a_message_survives_the_log_with_blocks_that_nobody_knows() -> None:
    line = (
        b'{"id":"m1","role":"user","content":[{"type":"hologram","depth":3}],'
        b'"source":{"kind":"oracle","name":"x"}}'
    )
    message = decoder(Message).decode(line)
    assert text_of(message.content) == ""
    assert encode(message) == line


def test_a_summary_is_cut_at_its_bound() -> None:
    assert bounded_summary("x" * 120) == "x" * 120
    assert bounded_summary("x" * 121) == "x" * 119 + "…"
