"""The first items are kept, the rest is counted."""

from __future__ import annotations

import msgspec
import pytest
from dsh_output_retention import (
    ExactlyOmitted,
    ItemRetainer,
    NothingOmitted,
    Omitted,
    Pushed,
    UnknownOmitted,
    describe_omitted,
)


def test_the_first_items_are_kept_and_each_push_says_so() -> None:
    retainer = ItemRetainer[str](2)
    pushes = [retainer.push(item) for item in "abc"]
    assert pushes == [Pushed(True, False), Pushed(True, False), Pushed(False, True)]
    retained = retainer.finish()
    assert retained.items == ("a", "b")
    assert (retained.seen, retained.kept, retained.truncated) == (3, 2, True)
    assert retained.omitted == ExactlyOmitted(1)


def test_exactly_as_many_as_fit_omit_nothing() -> None:
    retainer = ItemRetainer[int](2)
    retainer.push(1), retainer.push(2)
    retained = retainer.finish()
    assert (retained.items, retained.truncated) == ((1, 2), False)
    assert retained.omitted == NothingOmitted()


def test_a_source_left_before_its_end_omits_an_unknown_number() -> None:
    retainer = ItemRetainer[int](1)
    retainer.push(1)
    retained = retainer.finish(complete=False)
    assert (retained.items, retained.truncated) == ((1,), True)
    assert retained.omitted == UnknownOmitted()


def test_a_budget_of_nothing_counts_all() -> None:
    retainer = ItemRetainer[int](0)
    assert retainer.push(1) == Pushed(False, True)
    assert retainer.finish().omitted == ExactlyOmitted(1)


def test_a_negative_budget_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="max_items must not be negative"):
        ItemRetainer[int](-1)


@pytest.mark.parametrize(
    ("omitted", "sentence"),
    [
        (NothingOmitted(), ""),
        (ExactlyOmitted(12), "Omitted 12 matches."),
        (UnknownOmitted(), "More matches were omitted."),
    ],
)
def test_what_was_omitted_is_one_sentence(omitted: Omitted, sentence: str) -> None:
    assert describe_omitted(omitted, "matches") == sentence


@pytest.mark.parametrize(
    ("omitted", "wire"),
    [
        (NothingOmitted(), b'{"kind":"none"}'),
        (ExactlyOmitted(3), b'{"kind":"exact","count":3}'),
        (UnknownOmitted(), b'{"kind":"unknown"}'),
    ],
)
def test_what_was_omitted_can_be_stored(omitted: Omitted, wire: bytes) -> None:
    assert msgspec.json.encode(omitted) == wire
    assert msgspec.json.decode(wire, type=Omitted) == omitted
