"""Text files: what counts as text, how it is written, and literal replacement in it."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import msgspec
from dsh_fs import FsError, TextConvention, TextEdit

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
SNIFF_BYTES: Final = 8192
"""A NUL this near to the start makes a file binary."""


class TextFile(msgspec.Struct, frozen=True):
    """A decoded text file: `text` has its own line endings and no byte order mark."""

    text: str
    convention: TextConvention

    def encode(self, path: str) -> bytes:
        """The bytes that this text stands for. Half a character is `FS_NOT_TEXT`."""
        mark = BYTE_ORDER_MARK if self.convention.byte_order_mark else b""
        try:
            return mark + self.text.encode("utf-8")
        except UnicodeEncodeError as error:
            half = ascii(self.text[error.start])
            message = f"cannot write {path!r}: the new text holds {half}, half a character"
            raise FsError(message, code="FS_NOT_TEXT") from error

    def normalized(self) -> str:
        """The text with LF line endings."""
        return self.text.replace("\r\n", "\n")


def decode_text(data: bytes, path: str, *, nul_anywhere: bool = False) -> TextFile:
    """Raises `FsError` with `FS_NOT_TEXT` unless `data` is UTF-8 without NUL."""
    if b"\0" in (data if nul_anywhere else data[:SNIFF_BYTES]):
        raise FsError(f"{path!r} is binary (it holds NUL bytes), not text", code="FS_NOT_TEXT")
    marked = data.startswith(BYTE_ORDER_MARK)
    try:
        text = data[len(BYTE_ORDER_MARK) if marked else 0 :].decode("utf-8")
    except UnicodeDecodeError as error:
        raise FsError(
            f"{path!r} is not UTF-8 text: byte {error.start} is 0x{data[error.start]:02x}",
            code="FS_NOT_TEXT",
        ) from None
    return TextFile(text, convention_of(text, byte_order_mark=marked))


def convention_of(text: str, *, byte_order_mark: bool) -> TextConvention:
    """How `text` ends its lines."""
    crlf = text.count("\r\n")
    lf = text.count("\n") - crlf
    if crlf and lf:
        return TextConvention(byte_order_mark, "mixed")
    return TextConvention(byte_order_mark, "crlf" if crlf else "lf" if lf else "none")


def content_to_write(content: str) -> TextFile:
    """What a write of exactly `content` puts on disk."""
    marked = content.startswith("\ufeff")
    text = content[1:] if marked else content
    return TextFile(text, convention_of(text, byte_order_mark=marked))


def apply_edit(file: TextFile, edit: TextEdit, path: str) -> TextFile:
    """Replace literally; everything outside the replaced ranges stays byte for byte.

    Lines of the needle match whatever ends them in the file, and the replacement's lines get the
    ending that most lines of the file have. Raises `FsError` with `FS_EDIT_NOT_FOUND` or
    `FS_AMBIGUOUS_EDIT`.
    """
    text = file.text
    normalized = file.normalized()
    needle = edit.old.replace("\r\n", "\n")
    first = normalized.find(needle) if needle else -1
    if first < 0:
        raise FsError(
            f"the text to replace does not occur in {path!r}; "
            "it must match the file exactly, spaces and line breaks included",
            code="FS_EDIT_NOT_FOUND",
        )
    # From the next character on: two places that overlap are two places all the same.
    if not edit.replace_all and normalized.find(needle, first + 1) >= 0:
        raise FsError(
            f"the text to replace occurs more than once in {path!r}; "
            "include more of its surroundings to name one place, or replace all",
            code="FS_AMBIGUOUS_EDIT",
        )
    crlf = _crlf_positions(text)
    new = edit.new
    if len(crlf) * 2 > normalized.count("\n"):
        new = new.replace("\r\n", "\n").replace("\n", "\r\n")
    pieces: list[str] = []
    done = 0
    found = first
    while found >= 0:
        end = found + len(needle)
        pieces += (text[done : found + bisect_left(crlf, found)], new)
        done = end + bisect_left(crlf, end)
        found = normalized.find(needle, end)
    pieces.append(text[done:])
    edited = "".join(pieces)
    return TextFile(edited, convention_of(edited, byte_order_mark=file.convention.byte_order_mark))


def _crlf_positions(text: str) -> list[int]:
    """Where the LF of each CRLF stands once every CRLF is one character.

    A position `p` of the normalized text is `p` plus the number of these below `p` in the text.
    """
    positions: list[int] = []
    found = text.find("\r\n")
    while found >= 0:
        positions.append(found - len(positions))
        found = text.find("\r\n", found + 2)
    return positions
