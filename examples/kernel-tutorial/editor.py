"""Shortens notes."""

from __future__ import annotations

from typing import Annotated

import msgspec
from dsh_cordis import Context, Next
from msgspec import Meta
from notes import NOTE_CHECK, Note


class Config(msgspec.Struct, frozen=True, rename="camel"):
    """How notes are shortened."""

    max_length: Annotated[int, Meta(ge=1, description="In characters.")] = 20
    mark: Annotated[str, Meta(description="What stands for the rest.")] = "..."


def apply(ctx: Context, config: Config) -> None:
    async def shorten(_note: Note, next: Next[Note]) -> Note:
        checked = await next()
        if len(checked.text) <= config.max_length:
            return checked
        return Note(checked.text[: config.max_length] + config.mark)

    ctx.on(NOTE_CHECK, shorten)
