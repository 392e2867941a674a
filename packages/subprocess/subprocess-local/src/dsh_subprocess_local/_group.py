"""A process group: is any of it alive, and how to end it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

_DEAD_STATES = frozenset("ZX")


class ProcessGroup:
    """The group that a child leads. The first confirmed absence ends all signalling for good,
    because the number may belong to somebody else afterwards."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._gone = False

    @property
    def gone(self) -> bool:
        """Whether absence was confirmed."""
        return self._gone

    def alive(self, *, leader_reaped: bool) -> bool:
        """Whether any member runs. Members that only wait to be reaped count as gone."""
        if self._gone:
            return False
        try:
            os.killpg(self._leader, 0)
        except ProcessLookupError:
            self._gone = True
            return False
        except PermissionError:
            return True
        if leader_reaped and sys.platform == "linux" and not _has_running_member(self._leader):
            self._gone = True
        return not self._gone

    def send(self, number: signal.Signals) -> None:
        """Signal every member; nothing once the group is gone."""
        if self._gone:
            return
        try:
            os.killpg(self._leader, number)
        except ProcessLookupError:
            self._gone = True
        except PermissionError:
            # Members changed identity; the direct child is still ours to end.
            with contextlib.suppress(OSError):
                os.kill(self._leader, number)


def _has_running_member(group: int) -> bool:
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            stat = Path(entry.path, "stat").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError:
            return True  # unreadable means: cannot rule it out
        # "pid (name) state ppid pgrp ..."; the name may hold spaces and parentheses.
        fields = stat[stat.rindex(b")") + 2 :].split()
        if int(fields[2]) == group and fields[0].decode() not in _DEAD_STATES:
            return True
    return False
