"""Sessions of the workspace: `nox` runs the tests, `nox -l` lists the others.

Another interpreter: `nox -s tests --force-python 3.13`. Arguments after `--` go to the tool.
"""

from __future__ import annotations

import re
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "uv"
nox.options.sessions = ["tests"]
nox.options.error_on_missing_interpreters = True

VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?(?:\.post\d+)?(?:\.dev\d+)?")


def sync(session: nox.Session, *groups: str) -> None:
    """Install every member, editable, and these dependency groups, exactly as locked."""
    session.run_install(
        *("uv", "sync", "--locked", "--all-packages", "--no-default-groups"),
        *(f"--group={group}" for group in groups),
        f"--python={session.virtualenv.location}",
        env={"UV_PROJECT_ENVIRONMENT": session.virtualenv.location},
        external=True,
    )


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests of every member and of the repository."""
    sync(session, "test")
    session.run("pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting and the layers of the packages."""
    sync(session, "lint")
    checks = (
        ("ruff", "check", *session.posargs),
        ("ruff", "format", "--check"),
        ("lint-imports", "--no-cache"),
    )
    failed = 0
    for check in checks:  # all of them: one run shows everything there is to mend
        try:
            session.run(*check)
        except CommandFailed:
            failed += 1
    if failed:
        session.error(f"{failed} of {len(checks)} checks failed")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of every member's source, and what the checker tells plugin authors."""
    sync(session, "type", "test")
    # Named, because the checker prefers a .venv in the repository, whatever that holds.
    python = f"--pythonpath={session.virtualenv.location}/bin/python"
    session.run("basedpyright", python, *session.posargs)
    session.run("pytest", "--quiet", "tests/typing")


@nox.session
def wheels(session: nox.Session) -> None:
    """Build every member; test each (or those named) by its wheel, with only what it declares."""
    session.run_install(
        *("uv", "sync", "--locked", "--only-group=test", f"--python={session.virtualenv.location}"),
        env={"UV_PROJECT_ENVIRONMENT": session.virtualenv.location},
        external=True,
    )
    session.run("pytest", "tests/wheels", env={"DSH_WHEELS": " ".join(session.posargs)})


@nox.session
def real(session: nox.Session) -> None:
    """Break and mend real projects; fetches their source distributions from the package index."""
    sync(session, "test")
    session.install("pip")
    sdists = session.create_tmp()
    session.run(
        *("python", "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"),
        *(f"--dest={sdists}", "--requirement=tests/real/projects.txt"),
    )
    session.run("pytest", "tests/real", *session.posargs, env={"DSH_REAL_SDISTS": sdists})


@nox.session
def crash(session: nox.Session) -> None:
    """Kill runs at fifty moments instead of the few that the tests take, and resume each."""
    sync(session, "test")
    kills = {"DSH_TEST_KILLS": "50"}
    session.run("pytest", "tests/headless/test_crash.py", *session.posargs, env=kills)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Try many random plugin trees, other ones each time: `nox -s fuzz -- 20000`."""
    sync(session, "test")
    number, *arguments = session.posargs or ("5000",)
    tests = ("tests/robust/test_tree_model.py", "tests/robust/test_random_trees.py")
    session.run("pytest", *tests, *arguments, env={"DSH_TEST_TREES": number})


@nox.session
def bench(session: nox.Session) -> None:
    """Measure beside a bare loop, from wheels: `nox -s bench -- cold step --pairs 15`."""
    wheels = session.create_tmp()
    build = ("uv", "build", "--quiet", "--all-packages", "--wheel", f"--out-dir={wheels}")
    session.run_install(*build, external=True)
    # The program as pip installs it, compiled, and what is measured beside it; no click, no rich.
    programs = ("dsh-profile-headless", "dsh-demo", "httpx", "pluggy")
    # Refreshed, because a wheel of an earlier build with the same version is in the cache.
    session.install("--compile-bytecode", "--refresh", f"--find-links={wheels}", *programs)
    session.run("python", "tests/bench/run.py", *session.posargs)


@nox.session(python=False)
def version(session: nox.Session) -> None:
    """Give every distribution one version: `nox -s version -- X.Y.Z`."""
    if len(session.posargs) != 1 or not VERSION.fullmatch(session.posargs[0]):
        session.error("one version, please: X.Y.Z (also X.Y.ZrcN, X.Y.Z.postN, X.Y.Z.devN)")
    count = set_version(Path(__file__).parent, session.posargs[0])
    session.log(f"{count} pyprojects have version {session.posargs[0]}")
    session.run("uv", "lock", external=True)


def set_version(root: Path, new: str) -> int:
    """Write `new` into every pyproject below `root`, members and pins of siblings; their number."""
    pyprojects = [root / "pyproject.toml"]
    for pattern in ("packages/*/*", "bundles/*", "profiles/*"):
        pyprojects += sorted(root.glob(f"{pattern}/pyproject.toml"))
    for pyproject in pyprojects:
        text = pyproject.read_text("utf-8")
        text = re.sub(r'(?m)^version = "[^"]*"$', f'version = "{new}"', text, count=1)
        text = re.sub(r'"(dsh-[a-z0-9-]+(?:\[[a-z0-9,-]+\])?)==[^";]*', rf'"\1=={new}', text)
        pyproject.write_text(text, "utf-8")
    return len(pyprojects)
