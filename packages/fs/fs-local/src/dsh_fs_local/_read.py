"""Reading: open without ever blocking on a pipe or device, then judge what was opened."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO, Final

from dsh_fs import FsError, TextRead

from ._faults import fs_errors
from ._paths import version_of
from ._text import BYTE_ORDER_MARK, SNIFF_BYTES, decode_text

PIECE_BYTES: Final = 1024 * 1024


def open_regular(path: str) -> BinaryIO:
    """Open for reading, or raise `FS_NOT_REGULAR_FILE` for directories, pipes and devices.

    O_NONBLOCK keeps a pipe without a writer from blocking the open; regular files ignore it.
    """
    with fs_errors("read", path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise not_regular(path, status)
    return os.fdopen(descriptor, "rb", buffering=0)


def not_regular(path: str, status: os.stat_result) -> FsError:
    """Says what `path` is instead of a file."""
    kinds = {
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    kind = kinds.get(stat.S_IFMT(status.st_mode), "no regular file")
    return FsError(f"{path!r} is {kind}, not a file", code="FS_NOT_REGULAR_FILE")


def read_text(path: str) -> TextRead:
    """The whole file. Blocking."""
    with open_regular(path) as file, fs_errors("read", path):
        version = version_of(os.fstat(file.fileno()))
        data = _read_all(file)
    return TextRead(decode_text(data, path).text, version)


def read_bytes(path: str, max_bytes: int) -> bytes:
    """The whole file, or `FS_TOO_LARGE`; never reads more than one byte too many. Blocking."""
    with open_regular(path) as file, fs_errors("read", path):
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > max_bytes else _read_all(file, max_bytes + 1)
    if size > max_bytes or len(data) > max_bytes:
        raise FsError(
            f"{path!r} is larger than the limit of {max_bytes} bytes", code="FS_TOO_LARGE"
        )
    return data


def text_pieces(path: str) -> Iterator[str]:
    """The file's text, about a megabyte at a time. Blocking at each step."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with open_regular(path) as file, fs_errors("read", path):
        data = file.read(PIECE_BYTES)
        if b"\0" in data[:SNIFF_BYTES]:
            raise FsError(f"{path!r} is binary, not text", code="FS_NOT_TEXT")
        data = data.removeprefix(BYTE_ORDER_MARK)
        while data:
            yield _decode_piece(decoder, data, path, final=False)
            data = file.read(PIECE_BYTES)
        if rest := _decode_piece(decoder, b"", path, final=True):
            yield rest


def _decode_piece(
    decoder: codecs.IncrementalDecoder, data: bytes, path: str, *, final: bool
) -> str:
    try:
        return decoder.decode(data, final)
    except UnicodeDecodeError:
        raise FsError(f"{path!r} is not UTF-8 text", code="FS_NOT_TEXT") from None


def _read_all(file: BinaryIO, limit: int = -1) -> bytes:
    """Until end of file or `limit` bytes; an unbuffered read may give less than asked."""
    pieces: list[bytes] = []
    left = limit
    while left:
        piece = file.read(min(PIECE_BYTES, left) if limit >= 0 else PIECE_BYTES)
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece) if limit >= 0 else 0
    return b"".join(pieces)
