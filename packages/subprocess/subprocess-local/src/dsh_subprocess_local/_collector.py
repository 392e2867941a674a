"""Keeps the tail of a stream in memory, and all of it in a file while the file's cap allows."""

from __future__ import annotations

import codecs
import contextlib
import os
import threading
from collections import deque
from pathlib import Path
from typing import BinaryIO

from dsh_subprocess import Collect, CollectedOutput, OutputRead


class SpillDirectory:
    """A private directory of this process, made when the first file is needed."""

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent
        self._path: Path | None = None
        self._making = threading.Lock()

    def open_file(self) -> tuple[Path, BinaryIO]:
        """A new file of mode 0600 with a random name. Blocking; for any thread."""
        import tempfile

        with self._making:
            # A cleaner of temporary files may have removed it since the last time.
            if self._path is None or not self._path.is_dir():
                self._path = Path(tempfile.mkdtemp(prefix="dsh-output-", dir=self._parent))
            directory = self._path
        descriptor, name = tempfile.mkstemp(prefix="stream-", suffix=".log", dir=directory)
        return Path(name), os.fdopen(descriptor, "wb", buffering=0)


class TailCollector(CollectedOutput):
    """The last `max_bytes` of a stream, byte-exact.

    `push` is for the event loop and never blocks. When it answers True the bytes also have to go
    to the file: call `spill` off the loop, then go on pushing.
    """

    def __init__(self, limits: Collect, directory: SpillDirectory) -> None:
        self._max_bytes = limits.max_bytes
        self._spill_max_bytes = limits.spill_max_bytes or 0
        self._directory = directory
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._seen = 0
        self._ended = False
        self._unspilled: list[bytes] = []
        self._spill: _SpillFile | None = None
        self._spilling = limits.spill_max_bytes is not None

    def push(self, data: bytes) -> bool:
        """Take the stream's next bytes; True if `spill` is due before the next push."""
        overflowed = self._held < self._seen
        self._seen += len(data)
        if self._spilling and (overflowed or self._seen > self._max_bytes):
            # Nothing is dropped yet at the first overflow, so the file can begin at byte 0.
            self._unspilled = [data] if overflowed else [*self._chunks, data]
        self._chunks.append(data)
        self._held += len(data)
        self._trim()
        return bool(self._unspilled)

    def spill(self) -> None:
        """Write what `push` left for the file. Blocking; failures end spilling, never the run."""
        pending, self._unspilled = self._unspilled, []
        if self._seen > self._spill_max_bytes:
            self._drop_spill()
            return
        try:
            if self._spill is None:
                self._spill = _SpillFile(*self._directory.open_file())
            self._spill.write(pending)
        except OSError:
            self._drop_spill()

    def end(self) -> bool:
        """The stream ended; True if `finish` is due."""
        self._ended = True
        return self._spill is not None

    def finish(self) -> None:
        """Close the file. Blocking. A failed close withholds its path."""
        if self._spill is not None and not self._spill.close():
            self._drop_spill()

    def read_from(self, offset: int) -> OutputRead:
        start = self._seen - self._held
        lossy = offset < start
        data = b"".join(self._chunks)
        # A window that was cut inside a character begins after it.
        data = _without_cut_character(data) if lossy else data[offset - start :]
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data, self._ended).replace("\0", "\ufffd")
        unfinished = len(decoder.getstate()[0])
        path = str(self._spill.path) if self._spill is not None else None
        return OutputRead(text, self._seen - unfinished, lossy, path)

    def _trim(self) -> None:
        excess = self._held - self._max_bytes
        while excess > 0:
            head = self._chunks[0]
            if len(head) <= excess:
                self._chunks.popleft()
                self._held -= len(head)
                excess -= len(head)
            else:
                self._chunks[0] = head[excess:]
                self._held -= excess
                excess = 0

    def _drop_spill(self) -> None:
        self._spilling = False
        if self._spill is not None:
            self._spill.discard()
            self._spill = None


def _without_cut_character(data: bytes) -> bytes:
    """`data` without up to three UTF-8 continuation bytes at its start."""
    cut = 0
    while cut < min(3, len(data)) and data[cut] & 0xC0 == 0x80:
        cut += 1
    return data[cut:]


class _SpillFile:
    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self._file = file

    def write(self, chunks: list[bytes]) -> None:
        for chunk in chunks:
            view = memoryview(chunk)
            while view:
                view = view[self._file.write(view) :]

    def close(self) -> bool:
        try:
            self._file.close()
        except OSError:
            return False
        return True

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self.path.unlink()
