"""Files are written beside the event loop, never on it."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import BinaryIO

import pytest
from dsh_subprocess import Collect
from dsh_subprocess_local._collector import SpillDirectory, TailCollector
from dsh_subprocess_local._streams import Drain

pytestmark = pytest.mark.anyio


class SlowDisk(SpillDirectory):
    """A directory whose first file takes until `ready` is set."""

    def __init__(self, parent: Path) -> None:
        super().__init__(parent)
        self.asked = threading.Event()
        self.ready = threading.Event()

    def open_file(self) -> tuple[Path, BinaryIO]:
        self.asked.set()
        assert self.ready.wait(10)
        return super().open_file()


async def test_a_slow_disk_delays_its_own_stream_only(tmp_path: Path) -> None:
    loop, disk = asyncio.get_running_loop(), SlowDisk(tmp_path)
    collector = TailCollector(Collect(max_bytes=4, spill_max_bytes=100), disk)
    ours, theirs = os.pipe()
    drain = Drain(loop, os.fdopen(ours, "rb", buffering=0), collector)
    os.write(theirs, b"first ")
    # The loop goes on serving this task while the disk keeps the writer waiting.
    assert await asyncio.to_thread(disk.asked.wait, 10)
    os.write(theirs, b"second")
    await asyncio.sleep(0)
    assert collector.read_from(0).text == "rst "
    disk.ready.set()
    os.close(theirs)
    await drain.ended
    await drain.settle()
    read = collector.read_from(0)
    assert read.text == "cond"
    assert read.spill_path is not None
    assert Path(read.spill_path).read_bytes() == b"first second"


async def test_a_stream_that_is_cut_off_while_its_file_is_written_keeps_it(tmp_path: Path) -> None:
    loop, disk = asyncio.get_running_loop(), SlowDisk(tmp_path)
    collector = TailCollector(Collect(max_bytes=4, spill_max_bytes=100), disk)
    ours, theirs = os.pipe()
    drain = Drain(loop, os.fdopen(ours, "rb", buffering=0), collector)
    os.write(theirs, b"first ")
    assert await asyncio.to_thread(disk.asked.wait, 10)
    async with asyncio.TaskGroup() as group:
        settled = group.create_task(drain.settle())
        await asyncio.sleep(0)
        assert not settled.done()
        disk.ready.set()
    os.write(theirs, b"dropped")
    os.close(theirs)
    await drain.ended
    read = collector.read_from(0)
    assert (read.text, read.next_offset) == ("rst ", 6)
    assert read.spill_path is not None
    assert Path(read.spill_path).read_bytes() == b"first "
