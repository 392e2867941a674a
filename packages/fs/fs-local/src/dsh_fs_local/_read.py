"""Reading: open without ever blocking on a pipe or device, then judge what was opened."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Callable, Generator
from typing import Final

from dsh_fs import FsError, TextRead

from ._faults import fs_errors
from ._paths import version_of
from ._text import BYTE_ORDER_MARK, SNIFF_BYTES, decode_text

PIECE_BYTES: Final = 1024 * 1024


class RegularFile:
    """An open regular file; a context manager. Everything here blocks and raises `FsError`."""

    __slots__ = ("_descriptor", "path", "status")
    path: str
    status: os.stat_result
    """Of what was opened, whatever has the name now."""

    def __init__(self, path: str) -> None:
        """Open, or raise `FS_NOT_REGULAR_FILE` for directories, pipes and devices."""
        self.path = path
        # Without O_NONBLOCK a pipe that nobody writes to would block; regular files ignore it.
        flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)
        with fs_errors("read", path):
            self._descriptor = os.open(path, flags)
        self.status = os.fstat(self._descriptor)
        if not stat.S_ISREG(self.status.st_mode):
            os.close(self._descriptor)
            raise not_regular(path, self.status)

    def __enter__(self) -> RegularFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def piece(self, max_bytes: int = PIECE_BYTES) -> bytes:
        """The next bytes, empty at the end of the file."""
        with fs_errors("read", self.path):
            try:
                return os.read(self._descriptor, max_bytes)
            except BlockingIOError:  # a kernel log that has no more to say for now
                return b""

    def rest(self, check: Callable[[], None], *, max_bytes: int | None = None) -> bytes:
        """Everything to the end, or up to `max_bytes`; `check` may raise between the pieces."""
        pieces: list[bytes] = []
        left = max_bytes
        while left is None or left > 0:
            check()
            piece = self.piece(PIECE_BYTES if left is None else min(PIECE_BYTES, left))
            if not piece:
                break
            pieces.append(piece)
            if left is not None:
                left -= len(piece)
        return b"".join(pieces)


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


def read_text(path: str, check: Callable[[], None]) -> TextRead:
    """The whole file. Blocking."""
    with RegularFile(path) as file:
        data = file.rest(check)
    return TextRead(decode_text(data, path).text, version_of(file.status))


def read_bytes(path: str, max_bytes: int, check: Callable[[], None]) -> bytes:
    """The whole file, or `FS_TOO_LARGE`; never reads more than one byte too many. Blocking."""
    with RegularFile(path) as file:
        large = file.status.st_size > max_bytes
        # A file may grow while it is read, and some have no size to begin with.
        data = b"" if large else file.rest(check, max_bytes=max_bytes + 1)
    if large or len(data) > max_bytes:
        raise too_large(path, max_bytes)
    return data


def too_large(path: str, max_bytes: int) -> FsError:
    """Says which limit `path` is over."""
    return FsError(f"{path!r} is larger than the limit of {max_bytes} bytes", code="FS_TOO_LARGE")


def text_pieces(path: str) -> Generator[str]:
    """The file's text, at most a megabyte at a time. Blocking at each step."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with RegularFile(path) as file:
        data = file.piece()
        if b"\0" in data[:SNIFF_BYTES]:
            raise FsError(f"{path!r} is binary (it holds NUL bytes), not text", code="FS_NOT_TEXT")
        data = data.removeprefix(BYTE_ORDER_MARK)
        while data:
            yield _decode_piece(decoder, data, path, final=False)
            data = file.piece()
        if rest := _decode_piece(decoder, b"", path, final=True):
            yield rest


def _decode_piece(
    decoder: codecs.IncrementalDecoder, data: bytes, path: str, *, final: bool
) -> str:
    try:
        return decoder.decode(data, final)
    except UnicodeDecodeError:
        raise FsError(f"{path!r} is not UTF-8 text", code="FS_NOT_TEXT") from None
