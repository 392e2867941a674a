"""Limits of the file tools."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How much one read gives."""

    read_limit: Annotated[
        int,
        Meta(
            ge=1,
            description="Most lines of one read, and how many if the call does not say.",
            extra={"unit": "lines"},
        ),
    ] = 2000
    read_max_line_length: Annotated[
        int, Meta(ge=1, description="Longer lines are cut.", extra={"unit": "characters"})
    ] = 2000
    read_max_bytes: Annotated[
        int, Meta(ge=1, description="Most UTF-8 bytes of one read's lines.")
    ] = 51_200
    read_stream_min_size: Annotated[
        int,
        Meta(
            ge=0,
            description="Files of this size and larger are read in pieces.",
            extra={"unit": "bytes"},
        ),
    ] = 10_485_760
