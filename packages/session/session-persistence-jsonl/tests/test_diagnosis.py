"""What the storage says of itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from dsh_cordis import Finding
from dsh_session_persistence_jsonl import _storage

pytestmark = pytest.mark.anyio


async def findings(opened: Any) -> list[Finding]:
    async with opened() as process:
        return [finding async for finding in process.storage.diagnose()]


def below(root: Path) -> dict[str, tuple[int, int]]:
    """Everything there with its size and time of change."""
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in root.parent.rglob("*")}


async def test_readable_sessions_are_counted_and_nothing_is_changed(
    opened: Any, make: Any, parts: Any, root: Path
) -> None:
    await make(parts.start(), session_id="a")
    await make(parts.start(), parts.end(), session_id="b")
    before = below(root)
    assert await findings(opened) == [
        Finding("ok", "sessions", f"2 can be read below {root}"),
    ]
    assert below(root) == before


async def test_a_root_that_is_not_there_yet_is_fine_and_is_not_made(
    opened: Any, root: Path
) -> None:
    assert [finding.level for finding in await findings(opened)] == ["ok"]
    assert not root.exists()


async def test_a_session_that_cannot_be_opened_is_named_beside_those_that_can(
    opened: Any, make: Any, parts: Any
) -> None:
    await make(parts.start(), session_id="good")
    broken = await make(parts.start(), session_id="broken")
    broken.write_bytes(b"garbage")
    error, count = await findings(opened)
    assert (error.level, count.level) == ("error", "ok")
    assert str(broken) in error.message
    assert error.remedy
    assert count.message.startswith("1 can be read")


async def test_damage_behind_the_header_is_not_looked_for(
    opened: Any, make: Any, parts: Any
) -> None:
    path = await make(parts.start(), parts.deltas(50))
    path.write_bytes(path.read_bytes()[:-20])
    assert [finding.level for finding in await findings(opened)] == ["ok"]


async def test_of_many_that_cannot_be_opened_some_are_named_and_the_rest_counted(
    opened: Any, root: Path
) -> None:
    for number in range(14):
        directory = root / "--p--" / f"s{number}"
        directory.mkdir(parents=True)
        (directory / "session.jsonl.zstd").write_bytes(b"garbage")
    found = await findings(opened)
    assert [finding.level for finding in found] == ["error"] * 11 + ["ok"]
    assert found[10].message == "4 more cannot be read"


async def test_a_root_full_of_sessions_is_looked_at_in_part(
    opened: Any, make: Any, parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        await make(parts.start(), session_id=name)
    monkeypatch.setattr(_storage, "_SURVEYED", 2)
    (count,) = await findings(opened)
    assert count.message.startswith("2 of the 2 that were looked at can be read")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
async def test_a_root_that_cannot_be_written_is_an_error(opened: Any, root: Path) -> None:
    root.mkdir(mode=0o500)
    error, _ = await findings(opened)
    assert (error.level, bool(error.remedy)) == ("error", True)
    assert str(root) in error.message


async def test_a_root_below_a_file_is_an_error(opened: Any, root: Path) -> None:
    root.parent.mkdir(exist_ok=True)
    root.write_text("no directory")
    async with opened(root=str(root / "sessions")) as process:
        found = [finding async for finding in process.storage.diagnose()]
    assert [finding.level for finding in found] == ["error"]
    assert str(root) in found[0].message
