"""The read tool."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from dsh_cordis import Context
from dsh_fs import FS, FS_OBSERVED, FileObserved, FileStat, FileTarget, FsError
from dsh_tools import ToolDefinition, ToolExecution, define_tool
from msgspec import Meta

from ._config import Config
from ._place import PATH, owner_of, resolve
from ._window import LineWindow, NumberedLine

DESCRIPTION: Final = """\
Read a text file. Gives its lines as `number: text` from `offset` on; the number is no part of the \
file. The last line says whether there are more and where to go on."""


class ReadArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of read; the real ones have the configured limit."""

    file_path: Annotated[str, PATH]
    offset: Annotated[int, Meta(ge=1, description="First line, from 1.")] = 1
    limit: int


class ReadValue(msgspec.Struct, frozen=True, rename="camel"):
    """A window of a file."""

    path: str
    offset: int
    lines: tuple[NumberedLine, ...]
    total_lines: int
    capped: bool = False
    """Whether the size limit ended the window."""


def read_tool(ctx: Context, config: Config) -> ToolDefinition:
    """The tool with the limits of `config`."""

    async def execute(args: ReadArguments, execution: ToolExecution) -> ReadValue:
        return await _read(ctx, config, args, execution)

    return define_tool(
        name="read",
        description=DESCRIPTION,
        params=_arguments(config),
        execute=execute,
        output=ReadValue,
        render=_render,
        presentation_meta=_meta,
        is_concurrency_safe=True,
    )


def _arguments(config: Config) -> type[msgspec.Struct]:
    most = config.read_limit
    meta = Meta(ge=1, le=most, description=f"How many lines, at most {most}.")
    fields = [("limit", Annotated[int, meta], most)]
    return msgspec.defstruct(
        "ReadArguments", fields, bases=(ReadArguments,), frozen=True, kw_only=True
    )


async def _read(
    ctx: Context, config: Config, args: ReadArguments, execution: ToolExecution
) -> ReadValue:
    target = await resolve(ctx, args.file_path, execution)
    owner = owner_of(execution)
    status = await ctx[FS].stat(target, signal=execution.signal)
    if status is None:
        ctx.emit(FS_OBSERVED, FileObserved(target, owner, None))
        raise FsError(f"{target.display_path!r} does not exist", code="FS_NOT_FOUND")
    if status.type != "file":
        kind = "a directory" if status.type == "directory" else "a device, pipe or socket"
        raise FsError(f"{target.display_path!r} is {kind}, not a file", code="FS_NOT_REGULAR_FILE")
    window = LineWindow(
        offset=args.offset,
        limit=args.limit,
        max_line_length=config.read_max_line_length,
        max_bytes=config.read_max_bytes,
    )
    await _fill(ctx, window, target, status, execution, config)
    if args.offset > max(window.total, 1):
        raise FsError(
            f"offset {args.offset} is past the end of {target.display_path!r}, "
            f"which has {_counted(window.total)}",
            code="FS_NOT_FOUND",
        )
    # The version from before the read: a change during it makes the next change stale, no more.
    ctx.emit(FS_OBSERVED, FileObserved(target, owner, status.version))
    lines = tuple(window.lines)
    return ReadValue(target.display_path, args.offset, lines, window.total, window.capped)


async def _fill(  # the pieces or the whole, into the window
    ctx: Context,
    window: LineWindow,
    target: FileTarget,
    status: FileStat,
    execution: ToolExecution,
    config: Config,
) -> None:
    # Files that the kernel makes up say that they have no bytes, whatever they hold.
    if not status.size or status.size >= config.read_stream_min_size:
        async for piece in ctx[FS].stream_text(target, signal=execution.signal):
            window.feed(piece)
    else:
        window.feed((await ctx[FS].read_text(target, signal=execution.signal)).text)
    window.finish()


def _render(_args: object, value: ReadValue) -> str:
    """The window in an envelope, with a footer that says where it stands in the file."""
    lines = "\n".join(f"{line.number}: {line.text}" for line in value.lines)
    body = f"{lines}\n\n" if value.lines else ""
    return (
        f"<path>{value.path}</path>\n<type>file</type>\n<content>\n"
        f"{body}{_footer(value)}\n</content>"
    )


def _footer(value: ReadValue) -> str:
    if not value.lines:
        return "(the file is empty)"
    total, last = value.total_lines, value.lines[-1].number
    if last >= total:
        return f"(end of file, {_counted(total)} in all)"
    why = "stopped at the size limit; " if value.capped else ""
    return f"({why}lines {value.offset}-{last} of {total}; go on with offset {last + 1})"


def _counted(lines: int) -> str:
    return f"{lines} line{'' if lines == 1 else 's'}"


def _meta(_args: object, value: ReadValue) -> dict[str, str | int]:
    # The lines themselves stand in the content.
    return {"path": value.path, "offset": value.offset, "totalLines": value.total_lines}
