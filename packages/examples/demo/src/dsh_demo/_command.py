"""Joins launcher, mock server and adapter into a run that needs nothing set up."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dsh_llm_mock_server import MockServer

from ._progress import Progress
from ._project import TASK, create_project, tests_pass
from ._run import Run
from ._script import replies


def main(argv: Sequence[str], environment: object = None) -> int:  # noqa: ARG001 - the shape of commands
    """Run the demo. 0 only if the project's tests pass at its end.

    Runs in the main thread. SIGINT, SIGTERM and SIGHUP end it with 128 and the signal's number,
    after the run has ended.
    """
    try:
        options = _parser().parse_args(argv)
    except SystemExit as request:
        # argparse prints its text and ends the process with 2; misuse is 1 here.
        return 1 if request.code else 0
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    progress = Progress(sys.stdout, colour=colour)
    try:
        root = Path(tempfile.mkdtemp(prefix="dsh-demo-"))
    except OSError as error:
        return _fail(error)
    try:
        return _demonstrate(root, progress, slow=options.slow)
    except OSError as error:
        return _fail(error)
    finally:
        _tidy(root, progress, clean=options.clean)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dsh demo", description="See the harness fix a failing test; no key, no network."
    )
    parser.add_argument("--clean", action="store_true", help="remove what the demo made")
    parser.add_argument("--slow", action="store_true", help="stream at the pace of a reader")
    return parser


def _demonstrate(root: Path, progress: Progress, *, slow: bool) -> int:
    project, home = root / "project", root / "home"
    with Run() as run:
        create_project(project)
        progress.headline("A project with a failing test, a scripted model, the real harness.")
        with MockServer.threaded(replies(slow=slow)) as server:
            command = [sys.executable, "-m", "dsh_cli", "headless", "--json", TASK]
            environment = _environment(home, server.base_url)
            code = run.follow(command, cwd=project, env=environment, show=progress.line)
        if code == 0:
            code = _conclude(project, progress)
        return run.status(code)


def _environment(home: Path, base_url: str) -> dict[str, str]:
    own = {
        "DSH_HOME": str(home),
        "DEEPSEEK_BASE_URL": base_url,
        "DEEPSEEK_API_KEY": "demo",
        "NO_COLOR": "1",  # colours are added here, or not at all
    }
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(("DSH_", "DEEPSEEK_")) and name != "FORCE_COLOR"
    }
    return {**inherited, **own}


def _conclude(project: Path, progress: Progress) -> int:
    progress.headline("The project's tests, once more:")
    passed = tests_pass(project)
    progress.verdict("They pass." if passed else "They fail.", good=passed)
    if passed:
        progress.headline("With a key of your own, in a project of your own:")
        progress.headline("  export DEEPSEEK_API_KEY=...")
        progress.headline('  dsh headless "make the failing test pass"')
    return 0 if passed else 1


def _fail(error: OSError) -> int:
    if not isinstance(error, BrokenPipeError):  # then nobody reads on, and knows it
        sys.stderr.write(f"dsh demo: {error}\n")
    return 1


def _tidy(root: Path, progress: Progress, *, clean: bool) -> None:
    if not clean:
        progress.note(f"kept: project {root / 'project'}, harness home {root / 'home'}")
        return
    try:
        shutil.rmtree(root)
    except OSError as error:
        sys.stderr.write(f"dsh demo: not all of {root} could be removed: {error}\n")
