"""The write and edit tools."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal

import msgspec
from dsh_cordis import Context
from dsh_fs import (
    FS,
    FS_EDIT_INTENT,
    FS_OBSERVED,
    FS_WRITE_INTENT,
    Expected,
    FileIntent,
    FileObserved,
    FsError,
    ReplaceIfVersion,
    TextConvention,
    TextEdit,
)
from dsh_tools import ToolArgsError, ToolDefinition, ToolExecution, define_tool
from msgspec import Meta

from ._diff import change
from ._place import PATH, owner_of, resolve

WRITE_DESCRIPTION: Final = """\
Write a whole text file, creating it and its directories if needed. Read an existing file first. \
The file gets exactly this content; to change part of a file use edit."""

EDIT_DESCRIPTION: Final = """\
Replace text in a file that was read before. `old_string` must occur exactly once, or set \
`replace_all`; both strings are literal. Line endings and byte order mark stay as they are."""


class WriteArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of write."""

    file_path: Annotated[str, PATH]
    content: Annotated[str, Meta(description="The whole new content.")]


class WriteValue(msgspec.Struct, frozen=True, rename="camel"):
    """A written file; texts are as `WriteResult` has them."""

    path: str
    operation: Literal["create", "update"]
    before: str | None
    after: str
    notes: tuple[str, ...] = ()


class EditArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of edit."""

    file_path: Annotated[str, PATH]
    old_string: Annotated[str, Meta(min_length=1, description="The text to replace, literally.")]
    new_string: Annotated[str, Meta(description="What to put in its place, literally.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence.")] = False


class EditValue(msgspec.Struct, frozen=True, rename="camel"):
    """An edited file; texts are as `EditResult` has them."""

    path: str
    before: str | None
    after: str | None


def write_tool(ctx: Context) -> ToolDefinition:
    """The write tool."""

    async def execute(args: WriteArguments, execution: ToolExecution) -> WriteValue:
        target = await resolve(ctx, args.file_path, execution)
        owner = owner_of(execution)
        with _with_remedy():
            expected = await ctx.waterfall(
                FS_WRITE_INTENT, FileIntent(target, owner), inner=_anything
            )
            result = await ctx[FS].write_text(
                target, args.content, expected=expected, signal=execution.signal
            )
        ctx.emit(FS_OBSERVED, FileObserved(target, owner, result.version))
        return WriteValue(
            target.display_path,
            result.operation,
            result.before,
            result.after,
            tuple(_changed_conventions(result.convention_before, result.convention_after)),
        )

    return define_tool(
        name="write",
        description=WRITE_DESCRIPTION,
        params=WriteArguments,
        execute=execute,
        output=WriteValue,
        render=_render_write,
        presentation_meta=_meta,
    )


def edit_tool(ctx: Context) -> ToolDefinition:
    """The edit tool."""

    async def execute(args: EditArguments, execution: ToolExecution) -> EditValue:
        if args.old_string == args.new_string:
            raise ToolArgsError(("new_string must differ from old_string",))
        target = await resolve(ctx, args.file_path, execution)
        owner = owner_of(execution)
        edit = TextEdit(old=args.old_string, new=args.new_string, replace_all=args.replace_all)
        with _with_remedy():
            expected = await ctx.waterfall(
                FS_EDIT_INTENT, FileIntent(target, owner), inner=_any_version
            )
            result = await ctx[FS].edit_text(
                target, edit, expected=expected, signal=execution.signal
            )
        ctx.emit(FS_OBSERVED, FileObserved(target, owner, result.version))
        return EditValue(target.display_path, result.before, result.after)

    return define_tool(
        name="edit",
        description=EDIT_DESCRIPTION,
        params=EditArguments,
        execute=execute,
        output=EditValue,
        render=lambda _args, value: f"Edited {value.path}.",
        presentation_meta=_meta,
    )


async def _anything() -> Expected | None:
    return None


async def _any_version() -> ReplaceIfVersion | None:
    return None


@contextmanager
def _with_remedy() -> Generator[None]:
    """Tell the model what to do about a file that it does not know as it is now."""
    try:
        yield
    except FsError as error:
        if error.code == "FS_STALE_VERSION":
            raise FsError(
                f"{error}; read it again, then repeat the change", code="FS_STALE_VERSION"
            ) from error
        if error.code == "FS_NOT_OBSERVED":
            raise FsError(
                f"{error}; read it, then repeat the change", code="FS_NOT_OBSERVED"
            ) from error
        raise


def _render_write(_args: object, value: WriteValue) -> str:
    verb = "Created" if value.operation == "create" else "Updated"
    return " ".join((f"{verb} {value.path}.", *value.notes))


def _meta(_args: object, value: WriteValue | EditValue) -> Any:  # noqa: ANN401 - JSON
    created = isinstance(value, WriteValue) and value.operation == "create"
    if value.after is None or (value.before is None and not created):
        return {"diffs": [], "truncated": True}
    return msgspec.to_builtins(change(value.path, value.before, value.after))


def _changed_conventions(before: TextConvention | None, after: TextConvention) -> Iterator[str]:
    if before is None:
        return
    if before.byte_order_mark != after.byte_order_mark:
        yield f"Its byte order mark is {'new' if after.byte_order_mark else 'gone'}."
    if "none" not in (before.newlines, after.newlines) and before.newlines != after.newlines:
        yield f"Its line endings changed from {before.newlines} to {after.newlines}."
