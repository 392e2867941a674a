"""`dsh plugin` in a home of its own, with wheels made on the spot and no package index."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from dsh_llm_mock_server import MockServer, Reply

TIMEOUT_S = 60.0
"""Far above what any of these commands needs."""

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

if shutil.which("uv") is None:
    collect_ignore_glob = ["test_*.py"]  # nothing here works without the installer


@dataclass(frozen=True)
class Done:
    """A finished command."""

    code: int
    stdout: str
    stderr: str


@dataclass
class Dsh:
    """Runs `dsh` with its own home, from `cwd`."""

    home: Path
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()

    @property
    def profile(self) -> Path:
        return self.home / "profiles/headless"

    @property
    def site(self) -> Path:
        return self.profile / "sites/current"

    @property
    def manifest(self) -> Path:
        return self.profile / "pyproject.toml"

    def start(
        self, *args: str, program: Sequence[str] = ("-m", "dsh_cli"), **options: Any
    ) -> subprocess.Popen[bytes]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DSH_", "DEEPSEEK_", "UV_")) and "proxy" not in name.lower()
        }
        return subprocess.Popen(
            [*self.prefix, sys.executable, *program, *args],
            cwd=self.cwd,
            env={**inherited, "DSH_HOME": str(self.home), "UV_OFFLINE": "1", **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )

    def run(self, *args: str, **options: Any) -> Done:
        return finish(self.start(*args, **options))

    def plugin(self, *args: str | Path) -> Done:
        return self.run("plugin", "--profile", "headless", *map(str, args))

    def done(self, *args: str | Path) -> Done:
        """A plugin command that has to succeed."""
        done = self.plugin(*args)
        assert done.code == 0, done.stderr
        return done

    def dump(self) -> str:
        done = self.run("--profile", "headless", "--dump-config")
        assert done.code == 0, done.stderr
        return done.stdout

    def snapshot(self) -> dict[str, bytes | str]:
        """Every file and link of the profile."""
        return {
            str(path.relative_to(self.profile)): (
                os.readlink(path) if path.is_symlink() else path.read_bytes()
            )
            for path in sorted(self.profile.rglob("*"))
            if path.is_symlink() or path.is_file()
        }


def finish(process: subprocess.Popen[bytes]) -> Done:
    """Wait for the end; a hanging command is killed and fails the test."""
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"it hangs\nstdout: {out.decode()}\nstderr: {err.decode()}")
    return Done(process.returncode, out.decode(), err.decode())


@pytest.fixture
def dsh(tmp_path: Path) -> Dsh:
    work = tmp_path / "work"
    work.mkdir()
    return Dsh(tmp_path / "home", work, {"UV_CACHE_DIR": str(tmp_path / "cache")})


@pytest.fixture
def wheel(tmp_path: Path) -> Callable[..., Path]:
    """Makes a wheel in `wheels/`, which uv searches when `dsh.env` says so."""
    directory = tmp_path / "wheels"
    directory.mkdir()

    def make(name: str, version: str = "1.0", **options: Any) -> Path:
        return write_wheel(directory, name, version, **options)

    return make


@pytest.fixture
def links(dsh: Dsh, tmp_path: Path) -> None:
    """Lets uv find the wheels by name."""
    dsh.env |= {"UV_FIND_LINKS": str(tmp_path / "wheels"), "UV_NO_INDEX": "1"}


@pytest.fixture
def model(dsh: Dsh) -> Iterator[Callable[[Sequence[Reply]], MockServer]]:
    servers: list[Any] = []

    def start(replies: Sequence[Reply]) -> MockServer:
        context = MockServer.threaded(replies)
        servers.append(context)
        server = context.__enter__()
        dsh.env |= {"DEEPSEEK_BASE_URL": server.base_url, "DEEPSEEK_API_KEY": "k"}
        return server

    yield start
    for context in servers:
        context.__exit__(None, None, None)


def write_wheel(
    directory: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    extras: Mapping[str, Sequence[str]] | None = None,
    points: Mapping[str, Mapping[str, str]] | None = None,
    files: Mapping[str, str] | None = None,
) -> Path:
    """A wheel with one module and a plugin `name` that does nothing, unless said otherwise."""
    package = name.replace("-", "_")
    if points is None:
        points = {"dsh.plugins": {name: package}, "dsh.bundles": {name: package}}
    row = f"- insert:\n    - {{id: {name}, name: {name}}}\n"
    if files is None:
        files = {
            f"{package}/__init__.py": "def apply(ctx, config):\n    pass\n",
            f"{package}/cordis.patch.yml": row,
        }
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata += [f"Requires-Dist: {one}" for one in requires]
    for extra, wanted in (extras or {}).items():
        metadata.append(f"Provides-Extra: {extra}")
        metadata += [f"Requires-Dist: {one} ; extra == '{extra}'" for one in wanted]
    info = f"{package}-{version}.dist-info"
    sections = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for group, entries in points.items()
    ]
    contents = {
        **files,
        f"{info}/METADATA": "\n".join(metadata) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "\n".join(sections),
    }
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for path, text in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        rows.writerow([path, f"sha256={digest.decode()}", len(text.encode())])
    rows.writerow([f"{info}/RECORD", "", ""])
    target = directory / f"{package}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for path, text in {**contents, f"{info}/RECORD": record.getvalue()}.items():
            archive.writestr(path, text)
    return target


def events(run: Done) -> list[dict[str, Any]]:
    """The JSON lines of a headless run."""
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.fixture
def lines() -> Callable[[Done], list[dict[str, Any]]]:
    return events


@pytest.fixture
def finished() -> Callable[[subprocess.Popen[bytes]], Done]:
    return finish


@pytest.fixture
def examples() -> Path:
    return EXAMPLES
