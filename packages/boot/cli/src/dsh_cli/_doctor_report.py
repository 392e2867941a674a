"""Findings on their way: from the process that starts a profile, and to whoever reads them."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from dsh_cordis import Finding

_SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_SECRET_LENGTH: Final = 8
"""Shorter values are words like `on`, which would make every text unreadable."""
_PARENT_S: Final = 0.5
_LEVEL_WIDTH: Final = 9


class Report:
    """What the started profile's process says: one object a line on what was its stdout.

    Takes stdout away from plugins: what they print goes where stderr goes.
    """

    def __init__(self) -> None:
        self._told = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self._secrets: dict[str, str] = {}

    def hide(self, environment: Mapping[str, str]) -> None:
        """Show the names instead of the values of what look like secrets."""
        found = {
            value: name
            for name, value in environment.items()
            if _SECRET_NAME.search(name) and len(value) >= _SECRET_LENGTH
        }
        # A secret may be the beginning of another one.
        self._secrets = dict(sorted(found.items(), key=lambda item: -len(item[0])))

    def __call__(self, finding: Finding) -> None:
        """Pass it on. Raises msgspec.ValidationError for one whose fields are of other types."""
        fields: dict[str, object] = msgspec.to_builtins(finding)
        shown = {
            name: self._shown(value) if isinstance(value, str) else value
            for name, value in fields.items()
        }
        self._told.write(msgspec.json.encode(msgspec.convert(shown, Finding)) + b"\n")

    def _shown(self, text: str) -> str:
        for secret, name in self._secrets.items():
            text = text.replace(secret, f"[{name}]")
        # A path may be no text.
        return text.encode("utf-8", "backslashreplace").decode()


def received(output: bytes) -> Iterator[Finding]:
    """The findings in it; a process that was killed may have left half of one."""
    for line in output.splitlines():
        try:
            yield msgspec.json.decode(line, type=Finding)
        except msgspec.DecodeError:
            continue


def end_with_parent() -> None:
    """Let this process and all that it starts end when the doctor is gone, however that ended."""
    parent = os.getppid()

    def watch() -> None:
        pause = threading.Event()
        while os.getppid() == parent:
            pause.wait(_PARENT_S)
        os.killpg(0, 9)

    threading.Thread(target=watch, daemon=True, name="dsh doctor's watch").start()


def write(finding: Finding, *, as_json: bool) -> bool:
    """Print it, for programs or for people, on one line; False if stdout takes nothing.

    Raises BrokenPipeError when the reader has seen enough.
    """
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - None when started with it closed
        return _refused("is closed")
    data = msgspec.json.encode(finding) if as_json else _for_people(finding)
    try:
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # Nothing that is left in its buffer may be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _refused(f"cannot be written: {error.strerror}")
    return True


def _refused(why: str) -> bool:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"dsh: standard output {why}\n")
    return False


def _for_people(finding: Finding) -> bytes:
    # Some messages hold several lines, and nothing that a plugin says may steer a terminal.
    lines = (line.strip() for line in finding.message.splitlines())
    parts = ["; ".join(filter(None, lines)), " ".join(finding.remedy.split())]
    text = f"{finding.level:<{_LEVEL_WIDTH}}{finding.subject}: {'; '.join(filter(None, parts))}"
    plain = "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
    return plain.encode("utf-8", "backslashreplace")
