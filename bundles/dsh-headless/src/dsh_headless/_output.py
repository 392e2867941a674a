"""The two faces of a run: text for people, lines for programs."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Protocol

from dsh_session import Session, SessionEvent

from ._errors import HeadlessError
from ._lines import ErrorLine, FinalLine, Line, LineWriter, SessionLine, encode_line
from ._outcome import Outcome


class Output(Protocol):
    """Told of what happens; writes to stdout.

    Every method raises `HeadlessError` if that fails: `OUTPUT_CLOSED` if nobody reads on,
    `OUTPUT_FAILED` for any other reason, such as a full disk.
    """

    def event(self, event: SessionEvent[Any]) -> None:
        """The session logged something."""
        ...

    def stored(self, session: Session) -> None:
        """The session and its prompt are on disk."""
        ...

    def outcome(self, outcome: Outcome) -> None:
        """The run is over."""
        ...


class TextOutput:
    """The answer and a line break if the run succeeded, else nothing."""

    def event(self, event: SessionEvent[Any]) -> None:
        """Nothing is shown before the end."""

    def stored(self, session: Session) -> None:
        """Nothing is shown before the end."""

    def outcome(self, outcome: Outcome) -> None:
        """Print the answer."""
        if outcome.code is None:
            _write(f"{outcome.text}\n".encode())


class JsonOutput:
    """One JSON object a line, each flushed as it happens.

    What happens before the session is on disk is held back, so that the session's line is first
    and whoever read it can resume.
    """

    def __init__(self) -> None:
        self._writer = LineWriter()
        self._held: list[Line] | None = []

    def event(self, event: SessionEvent[Any]) -> None:
        """The event's lines, at once or when the session's line is out."""
        lines = self._writer.lines(event)
        if self._held is not None:
            self._held.extend(lines)
            return
        for line in lines:
            _write(encode_line(line))

    def stored(self, session: Session) -> None:
        """The session's line, then what was held back."""
        held, self._held = self._held, None
        cwd = session.header.cwd
        first = SessionLine(session_id=session.id, cwd=cwd if isinstance(cwd, str) else "")
        _write(b"".join(encode_line(line) for line in (first, *(held or ()))))

    def outcome(self, outcome: Outcome) -> None:
        """The error, if there is one, and the final line."""
        if outcome.code is not None:
            _write(encode_line(ErrorLine(code=outcome.code, message=outcome.message)))
        _write(encode_line(FinalLine(text=outcome.text)))


def require_stdout() -> None:
    """Raises `HeadlessError` if this process was started without a standard output."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - None when started with it closed
        raise HeadlessError(
            "standard output is closed; send it to /dev/null to run without it",
            code="OUTPUT_CLOSED",
        )


def say(text: str) -> None:
    """One line of ours on stderr. A stderr that is closed, full or unread changes nothing."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # None when started closed
        sys.stderr.write(f"dsh: {text}\n")
        sys.stderr.flush()


def _write(data: bytes) -> None:
    require_stdout()
    # A reader that pauses pauses the run: nothing is dropped and nothing piles up.
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        _abandon()
        raise HeadlessError("nobody reads standard output any more", code="OUTPUT_CLOSED") from None
    except OSError as error:
        _abandon()
        raise HeadlessError(
            f"standard output cannot be written: {error.strerror}", code="OUTPUT_FAILED"
        ) from None


def _abandon() -> None:
    # What could not be written stays in the buffer, and the interpreter would try once more as it
    # ends, complain, and change the exit status.
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
