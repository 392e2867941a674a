"""The processes of one child: is any of them alive, and how to end them all.

The child leads a session of its own, and the session is the tree: programs such as `timeout`, and
shells with job control, give their children process groups of their own, which a signal to the
child's group would miss. Sessions can be listed on Linux only; elsewhere the group has to do.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Final

import msgspec

_MAX_ROUNDS: Final = 8
_DENSE_RANGE: Final = 256
_DENSE_AGE_S: Final = 5.0
"""For how long numbers cannot have wrapped around."""


class _Member(msgspec.Struct, frozen=True):
    pid: int
    group: int


class ProcessTree:
    """The session that a child leads. The first confirmed absence ends all signalling for good,
    because the number may belong to somebody else afterwards."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._young_until = time.monotonic() + _DENSE_AGE_S
        self._leader_reaped = False
        self._gone = False
        self._witness: int | None = None

    @property
    def gone(self) -> bool:
        """Whether absence was confirmed."""
        return self._gone

    def leader_reaped(self) -> None:
        """The child's number is free from now on, unless others of its session live."""
        self._leader_reaped = True

    def alive(self) -> bool:
        """Whether any member runs. Members that only wait to be reaped count as gone."""
        if self._gone or not self._leader_reaped:
            return not self._gone
        if self._witness is not None and _member(self._witness, self._leader) is not None:
            return True  # one that was seen before spares the search
        self._gone = not self._search()
        return not self._gone

    def send(self, number: signal.Signals) -> None:
        """Signal every member; nothing once the tree is gone."""
        if self._gone:
            return
        members = self._members()
        groups = {member.group for member in members or ()}
        if members is None or not self._leader_reaped:
            groups.add(self._leader)
        for group in groups:
            self._send(group, number)

    def _search(self) -> bool:
        members = self._members()
        if members is None:
            return _group_exists(self._leader)
        self._witness = members[0].pid if members else None
        return bool(members)

    def _members(self) -> list[_Member] | None:
        """The running members; None where they cannot be listed.

        Members are younger than their leader, so that while numbers only grow just those after it
        are looked at: none at all after a command that started nothing. Numbers handed out
        meanwhile get another round.
        """
        if sys.platform != "linux":
            return None
        found: list[_Member] = []
        young = time.monotonic() < self._young_until
        seen = self._leader - (not self._leader_reaped) if young else None
        newest = _newest_number()
        for _ in range(_MAX_ROUNDS):
            numbers = _numbers(seen, newest)
            if numbers is None:
                return None
            if not numbers:
                break
            found += [one for pid in numbers if (one := _member(pid, self._leader)) is not None]
            seen, newest = newest, _newest_number()
            if seen is None or seen == newest:
                break
        return found

    def _send(self, group: int, number: signal.Signals) -> None:
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            pass
        except PermissionError:
            # Every member changed identity; the direct child may still be ours to end.
            if not self._leader_reaped:
                with contextlib.suppress(OSError):
                    os.kill(self._leader, number)


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _newest_number() -> int | None:
    """The process number that was handed out last, if the system says."""
    line = _contents("/proc/loadavg")
    try:
        return int(line.rsplit(b" ", 1)[-1]) if line is not None else None
    except ValueError:
        return None


def _numbers(after: int | None, newest: int | None) -> Sequence[int] | None:
    """Process numbers to look at; None if the system does not list them."""
    if after is not None and newest is not None and 0 <= newest - after <= _DENSE_RANGE:
        return range(after + 1, newest + 1)
    try:
        names = os.listdir("/proc")
    except OSError:
        return None
    return [int(name) for name in names if name.isdigit()]


def _member(pid: int, session: int) -> _Member | None:
    """The process if it runs and belongs to `session`."""
    stat = _contents(f"/proc/{pid}/stat")
    if stat is None:
        return None
    # "pid (name) state ppid pgrp session ..."; the name may hold spaces and parentheses.
    fields = stat[stat.rindex(b")") + 2 :].split(None, 4)
    if int(fields[3]) != session or fields[0] in (b"Z", b"X"):
        return None
    return _Member(pid, int(fields[2]))


def _contents(path: str) -> bytes | None:
    """A small file of /proc, without the cost of a file object; None if it is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, 1024)
    except OSError:  # its process ended between the two
        return None
    finally:
        os.close(descriptor)
