"""How much was left out, and how to say it."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class NothingOmitted(msgspec.Struct, frozen=True, tag_field="kind", tag="none"):
    """Everything was kept."""


class ExactlyOmitted(msgspec.Struct, frozen=True, tag_field="kind", tag="exact"):
    """So many were left out; at least one."""

    count: int


class UnknownOmitted(msgspec.Struct, frozen=True, tag_field="kind", tag="unknown"):
    """There was more, and nobody counted it."""


Omitted: TypeAlias = NothingOmitted | ExactlyOmitted | UnknownOmitted


def describe_omitted(omitted: Omitted, unit: str) -> str:
    """One sentence for a reader, `unit` in the plural: `Omitted 12 matches.`; empty for nothing."""
    match omitted:
        case NothingOmitted():
            return ""
        case ExactlyOmitted(count=count):
            return f"Omitted {count} {unit}."
        case UnknownOmitted():
            return f"More {unit} were omitted."
