"""The process of `dsh`: its arguments, its memory while it starts, its end."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(argv: Sequence[str] | None = None) -> int:
    """Run `dsh` with these arguments (None: the process's own); the exit status.

    Runs in the main thread. After SIGINT or SIGTERM it does not return: the process ends.
    """
    from ._launch import launch

    return launch(_arguments(argv), lambda: None)


def program() -> NoReturn:
    """The script `dsh`: as `main`, but the process is its own and ends here.

    Starting makes objects and drops hardly any, so the collector rests until the application
    stands, and leaves alone what lives then. At the end every plugin is unloaded; tearing the
    interpreter down on top of that would take a tenth of a short run.
    """
    gc.disable()
    from ._launch import launch

    code = launch(_arguments(None), _settle_memory)
    from dsh_app_boot import flush_output, leave

    flush_output()
    leave(code)


def _arguments(argv: Sequence[str] | None) -> list[str]:
    return sys.argv[1:] if argv is None else list(argv)


def _settle_memory() -> None:
    gc.freeze()
    gc.enable()
