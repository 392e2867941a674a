"""What the launcher tells the application: its arguments, and how to end."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from dsh_cordis import ServiceKey

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

CMDLINE: Final = ServiceKey["CommandLine"]("cmdline_args")
APP_EXIT: Final = ServiceKey["AppExit"]("app_exit")


class CommandLine:
    """The application's arguments, verbatim. Shared, never consumed; unread ones are ignored."""

    __slots__ = ("args", "launcher_flags")
    args: tuple[str, ...]
    launcher_flags: tuple[str, ...]
    """What the launcher reads before them, for whoever explains a misspelt one."""

    def __init__(self, args: tuple[str, ...] = (), launcher_flags: tuple[str, ...] = ()) -> None:
        self.args = args
        self.launcher_flags = launcher_flags


class AppExit:
    """Ends the process: `ctx[APP_EXIT](0)`. The first code wins, later calls do nothing.

    The call returns at once; the launcher then unloads every plugin and exits.
    """

    __slots__ = ("_open", "_request")

    def __init__(self, request: Callable[[int], None]) -> None:
        self._request = request
        self._open = 0

    def __call__(self, code: int) -> None:
        """Ask for the end of the process with this exit status (0 done, 1 failed or misuse)."""
        self._request(code)

    @property
    def one_shot_open(self) -> bool:
        """Whether a one-shot turn is open, so that SIGTERM means that work was lost."""
        return self._open > 0

    @contextmanager
    def one_shot(self) -> Generator[None]:
        """Marks a one-shot turn as open: SIGTERM meanwhile exits 143 instead of 0."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
