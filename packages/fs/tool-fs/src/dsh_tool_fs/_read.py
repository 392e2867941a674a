"""The read tool."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from dsh_cordis import Context
from dsh_fs import FS, FS_OBSERVED, FileObserved, FileStat, FileTarget, FsError
from dsh_tools import ToolDefinition, ToolExecution, define_tool
from msgspec import UNSET, Meta, UnsetType

from ._config import Config
from ._place import owner_of, resolve
from ._window import LineWindow, NumberedLine

DESCRIPTION: Final = """\
Read a text file. Gives numbered lines from `offset` on; the last line says whether there are more \
and where to go on."""


class ReadValue(msgspec.Struct, frozen=True, rename="camel"):
    """A window of a file."""

    path: str
    offset: int
    lines: tuple[NumberedLine, ...]
    total_lines: int
    stopped_by: str | None = None
    """`limit` or `bytes` if the file goes on after the window."""


def read_tool(ctx: Context, config: Config) -> ToolDefinition:
    """The tool with the limits of `config`."""
    limit_type = Annotated[
        int,
        Meta(
            ge=1,
            le=config.read_limit,
            description=f"How many lines; {config.read_limit} if absent, which is the most.",
        ),
    ]

    class ReadArguments(msgspec.Struct, frozen=True, kw_only=True):
        file_path: Annotated[
            str, Meta(min_length=1, description="Path, relative to the working directory.")
        ]
        offset: Annotated[int, Meta(ge=1, description="First line, from 1.")] | UnsetType = UNSET
        limit: limit_type | UnsetType = UNSET  # pyright: ignore[reportInvalidTypeForm] - made from the configuration

    async def execute(args: ReadArguments, execution: ToolExecution) -> ReadValue:
        files = ctx[FS]
        target = await resolve(ctx, args.file_path, execution)
        status = await files.stat(target, signal=execution.signal)
        owner = owner_of(execution)
        if status is None:
            ctx.emit(FS_OBSERVED, FileObserved(target, owner, None))
            raise FsError(f"{target.display_path!r} does not exist", code="FS_NOT_FOUND")
        if status.type != "file":
            raise FsError(
                f"{target.display_path!r} is a {status.type}, not a file",
                code="FS_NOT_REGULAR_FILE",
            )
        window = LineWindow(
            offset=1 if args.offset is UNSET else args.offset,
            limit=config.read_limit if args.limit is UNSET else args.limit,
            max_line_length=config.read_max_line_length,
            max_bytes=config.read_max_bytes,
        )
        await _fill(ctx, window, target, status, execution, config)
        if window.offset > max(window.total, 1):
            raise FsError(
                f"offset {window.offset} is past the end of {target.display_path!r}, "
                f"which has {window.total} lines",
                code="FS_NOT_FOUND",
            )
        ctx.emit(FS_OBSERVED, FileObserved(target, owner, status.version))
        return ReadValue(
            target.display_path,
            window.offset,
            tuple(window.lines),
            window.total,
            window.stopped_by,
        )

    return define_tool(
        name="read",
        description=DESCRIPTION,
        params=ReadArguments,
        execute=execute,
        output=ReadValue,
        render=render,
        presentation_meta=lambda _args, value: {
            "path": value.path,
            "offset": value.offset,
            "totalLines": value.total_lines,
        },
        is_concurrency_safe=True,
    )


async def _fill(  # the pieces or the whole, into the window
    ctx: Context,
    window: LineWindow,
    target: FileTarget,
    status: FileStat,
    execution: ToolExecution,
    config: Config,
) -> None:
    files = ctx[FS]
    if status.size is None or status.size >= config.read_stream_min_size:
        async for piece in files.stream_text(target, signal=execution.signal):
            window.feed(piece)
    else:
        window.feed((await files.read_text(target, signal=execution.signal)).text)
    window.finish()


def render(_args: object, value: ReadValue) -> str:
    """The window in an envelope, with a footer that says where it stands in the file."""
    lines = "\n".join(f"{line.number}: {line.text}" for line in value.lines)
    body = f"{lines}\n\n" if lines else ""
    return (
        f"<path>{value.path}</path>\n<type>file</type>\n<content>\n"
        f"{body}{_footer(value)}\n</content>"
    )


def _footer(value: ReadValue) -> str:
    total = value.total_lines
    if not value.lines:
        return "(the file is empty)"
    last = value.lines[-1].number
    if last >= total:
        return f"(end of file, {total} lines in all)"
    why = "stopped at the size limit; " if value.stopped_by == "bytes" else ""
    return f"({why}lines {value.offset}-{last} of {total}; go on with offset {last + 1})"
