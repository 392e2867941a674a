"""A bounded part of a stream, cut between characters and counted in bytes."""

from __future__ import annotations

import pytest
from dsh_output_retention import Pushed, RetainedText, TextRetainer
from hypothesis import given
from hypothesis import strategies as st


def retained(retainer: TextRetainer, *chunks: bytes | str) -> RetainedText:
    for chunk in chunks:
        retainer.push(chunk)
    return retainer.finish()


def test_a_head_keeps_the_beginning() -> None:
    result = retained(TextRetainer(head_bytes=4), "abc", "def")
    assert result == RetainedText(head="abcd", tail="", omitted_bytes=2)
    assert (result.text, result.truncated) == ("abcd", True)


def test_a_tail_keeps_the_end() -> None:
    result = retained(TextRetainer(tail_bytes=4), "abc", "def")
    assert result == RetainedText(head="", tail="cdef", omitted_bytes=2)


def test_a_head_and_a_tail_keep_both_ends() -> None:
    result = retained(TextRetainer(head_bytes=2, tail_bytes=3), *"abcdefgh")
    assert result == RetainedText(head="ab", tail="fgh", omitted_bytes=3)
    assert result.text == "abfgh"


def test_a_cut_inside_a_multibyte_character_yields_no_replacement_and_an_exact_count() -> None:
    # Both cuts go through an emoji of four bytes.
    result = retained(TextRetainer(head_bytes=3, tail_bytes=3), "a😀bcd😀e".encode())
    assert result == RetainedText(head="a", tail="e", omitted_bytes=4 + 3 + 4)
    assert "\ufffd" not in result.text


def test_no_character_is_stitched_across_the_gap() -> None:
    # The first byte of é at the end of the head, the second of ã at the start of the tail.
    result = retained(TextRetainer(head_bytes=2, tail_bytes=2), "aéxxãb".encode())
    assert result == RetainedText(head="a", tail="b", omitted_bytes=6)


def test_with_nothing_omitted_everything_is_decoded_as_one_buffer() -> None:
    result = retained(TextRetainer(head_bytes=2, tail_bytes=3), "aéêb".encode()[:5])
    assert result == RetainedText(head="aéê", tail="", omitted_bytes=0)
    assert not result.truncated


def test_chunks_may_end_inside_a_character() -> None:
    data = "añ😀".encode()
    chunks = [data[index : index + 1] for index in range(len(data))]
    assert retained(TextRetainer(head_bytes=len(data)), *chunks).text == "añ😀"
    assert retained(TextRetainer(tail_bytes=len(data)), *chunks).text == "añ😀"


def test_a_stream_that_itself_ends_inside_a_character_shows_that() -> None:
    assert retained(TextRetainer(head_bytes=9), b"a\xc3").text == "a\ufffd"
    assert retained(TextRetainer(tail_bytes=2), b"xxa\xc3").text == "a\ufffd"


def test_bytes_that_are_no_utf_8_are_replaced_and_counted_as_kept() -> None:
    result = retained(TextRetainer(head_bytes=3), b"a\xffbcd")
    assert result == RetainedText(head="a\ufffdb", tail="", omitted_bytes=2)


def test_each_push_says_what_became_of_it() -> None:
    head = TextRetainer(head_bytes=2)
    assert [head.push(chunk) for chunk in (b"a", b"bc", b"d", b"")] == [
        Pushed(True, False),
        Pushed(True, True),
        Pushed(False, True),
        Pushed(False, True),
    ]
    tail = TextRetainer(tail_bytes=2)
    assert [tail.push(chunk) for chunk in (b"ab", b"c")] == [
        Pushed(True, False),
        Pushed(True, True),
    ]


def test_a_budget_of_nothing_keeps_nothing() -> None:
    assert retained(TextRetainer(), "é") == RetainedText(head="", tail="", omitted_bytes=2)


def test_finishing_does_not_end_it() -> None:
    retainer = TextRetainer(tail_bytes=2)
    assert retained(retainer, "ab").text == "ab"
    assert retained(retainer, "c").text == "bc"


def test_a_negative_budget_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="tail_bytes=-1"):
        TextRetainer(tail_bytes=-1)


@given(
    text=st.text(max_size=40),
    head=st.integers(0, 40),
    tail=st.integers(0, 40),
    sizes=st.lists(st.integers(1, 7), max_size=40),
)
def test_every_byte_is_either_shown_or_counted_however_it_is_chunked(
    text: str, head: int, tail: int, sizes: list[int]
) -> None:
    text = text.encode("utf-8", "ignore").decode()
    data, retainer, at = text.encode(), TextRetainer(head_bytes=head, tail_bytes=tail), 0
    for size in (*sizes, len(data)):
        retainer.push(data[at : at + size])
        at += size
    result = retainer.finish()
    kept = len(result.text.encode())
    assert kept + result.omitted_bytes == len(data)
    assert text.startswith(result.head)
    assert text.endswith(result.tail)
    # At most the three bytes on either side that a character was cut through are lost.
    assert kept >= min(len(data), max(head - 3, 0) + max(tail - 3, 0))
    if len(data) <= head + tail:
        assert result.text == text
