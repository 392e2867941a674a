"""Printing a composition as one YAML document that loads back to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final, cast

from dsh_cordis_loader import Row, row_fields, write_yaml

_SNAKE: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+\Z")
_LINE_END: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def dump_rows(rows: Sequence[Row]) -> str:
    """The rows as YAML, each run of equal provenance under a comment that names its layers.

    Configuration keys are camelCase, expressions stand verbatim.
    """
    if not rows:
        return "[]\n"
    parts: list[str] = []
    for (origin, patched_by), run in groupby(rows, lambda row: (row.origin, row.patched_by)):
        patched = f", patched by {', '.join(patched_by)}" if patched_by else ""
        # A file's name may hold whatever ends a line, and with it the comment.
        parts.append(f"# == {_LINE_END.sub(' ', origin + patched)}\n")
        parts.append(write_yaml([_camel_row(row) for row in run]))
    return "".join(parts)


def _camel_row(row: Row) -> dict[str, object]:
    fields = row_fields(row)
    if row.children is not None:
        fields["config"] = [_camel_row(child) for child in row.children]
    elif isinstance(row.config, Mapping):
        fields["config"] = _camel_keys(cast("Mapping[str, object]", row.config))
    return fields


def _camel_keys(config: Mapping[str, object]) -> dict[str, object]:
    """Top-level keys only: below them a mapping may be data whose keys are the user's own."""
    result: dict[str, object] = {}
    for key, value in config.items():
        camel = re.sub(r"_([a-z0-9])", lambda m: m[1].upper(), key) if _SNAKE.match(key) else key
        result[key if camel in config else camel] = value
    return result
