"""Joins launcher, mock server and adapter into a run that needs nothing set up."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dsh_llm_mock_server import MockServer

from ._progress import Progress
from ._project import TASK, create_project, tests_pass
from ._script import replies

_INTERRUPTED = 130


def main(argv: Sequence[str], environment: object = None) -> int:  # noqa: ARG001 - the shape of commands
    """Run the demo. 0 only if the project's tests pass at its end."""
    options = _parser().parse_args(argv)
    root = Path(tempfile.mkdtemp(prefix="dsh-demo-"))
    project, home = root / "project", root / "home"
    progress = Progress(sys.stdout, colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR"))
    try:
        create_project(project)
        progress.headline("A project with a failing test, a scripted model, the real harness.")
        code = _run(project, home, progress, slow=options.slow)
        return _conclude(project, progress) if code == 0 else code
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        if options.clean:
            shutil.rmtree(root, ignore_errors=True)
        else:
            progress.note(f"kept: project {project}, harness home {home}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dsh demo", description="See the harness fix a failing test; no key, no network."
    )
    parser.add_argument("--clean", action="store_true", help="remove what the demo made")
    parser.add_argument("--slow", action="store_true", help="stream at the pace of a reader")
    return parser


def _run(project: Path, home: Path, progress: Progress, *, slow: bool) -> int:
    """The headless profile as a process of its own, its lines shown as they come."""
    with MockServer.threaded(replies(slow=slow)) as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "dsh_cli", "headless", "--json", TASK],
            cwd=project,
            env=_environment(home, server.base_url),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        with process:
            if process.stdout is not None:
                for line in process.stdout:
                    progress.line(line)
    return process.returncode


def _environment(home: Path, base_url: str) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(("DSH_", "DEEPSEEK_"))
    }
    return {
        **inherited,
        "DSH_HOME": str(home),
        "DEEPSEEK_BASE_URL": base_url,
        "DEEPSEEK_API_KEY": "demo",
    }


def _conclude(project: Path, progress: Progress) -> int:
    progress.headline("The project's tests, once more:")
    passed = tests_pass(project)
    progress.verdict("They pass." if passed else "They fail.", good=passed)
    if passed:
        progress.headline("With a key of your own, in a project of your own:")
        progress.headline("  export DEEPSEEK_API_KEY=...")
        progress.headline('  dsh headless "make the failing test pass"')
    return 0 if passed else 1
