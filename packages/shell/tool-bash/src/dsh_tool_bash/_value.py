"""What a call of the tool takes and gives."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol, cast

import msgspec
from dsh_shell import ShellResult, StreamText
from msgspec import UNSET, Meta, UnsetType


class BashArguments(Protocol):
    """Arguments of one call."""

    command: str
    description: str
    timeout_ms: float | UnsetType
    workdir: str | UnsetType


def arguments_type(*, default_timeout_ms: float, max_timeout_ms: float) -> type[BashArguments]:
    """The arguments as a Struct whose schema states the limits of the shell in use."""
    timeout = (
        f"Time limit in milliseconds; {default_timeout_ms:.0f} if absent, "
        f"at most {max_timeout_ms:.0f}."
    )
    struct = msgspec.defstruct(
        "BashArguments",
        [
            ("command", Annotated[str, Meta(min_length=1, description="The bash command.")]),
            (
                "description",
                Annotated[str, Meta(description="What it does, in 5 to 10 words, for a person.")],
            ),
            (
                "timeout_ms",
                Annotated[float, Meta(gt=0, description=timeout)] | UnsetType,
                UNSET,
            ),
            (
                "workdir",
                Annotated[str, Meta(description="Directory to run in, relative to the session's.")]
                | UnsetType,
                UNSET,
            ),
        ],
        frozen=True,
        kw_only=True,
        rename="camel",
    )
    return cast("type[BashArguments]", struct)


class StreamValue(msgspec.Struct, frozen=True, rename="camel"):
    """The kept end of an output stream."""

    text: str
    truncated: bool
    spill_path: str | None


class BashValue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A finished command."""

    kind: Literal["foreground"] = "foreground"
    exit_code: int | None
    signal: str | None
    timed_out: bool
    aborted: bool
    timeout_ms: float
    stdout: StreamValue
    stderr: StreamValue
    left_running: bool


def value_of(result: ShellResult) -> BashValue:
    """The shell's result as the tool's value."""
    return BashValue(
        exit_code=result.exit_code,
        signal=result.signal,
        timed_out=result.timed_out,
        aborted=result.aborted,
        timeout_ms=result.timeout_ms,
        stdout=_stream(result.stdout),
        stderr=_stream(result.stderr),
        left_running=result.left_running,
    )


def _stream(text: StreamText) -> StreamValue:
    return StreamValue(text.text, text.truncated, text.spill_path)
