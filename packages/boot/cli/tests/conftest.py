"""The launcher as a real process, over an installation of the tests' own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

PLUGINS = """
    import argparse
    import asyncio
    import atexit
    import logging
    from pathlib import Path

    from dsh_cmdline import APP_EXIT, CMDLINE, parse_cmdline
    from dsh_cordis import ServiceKey

    PORT = ServiceKey("port_number")

    class Publishing:
        def __init__(self, port):
            self.port = port

        def expression_fields(self):
            return {"port": self.port}

    def startup(ctx, config):
        parser = argparse.ArgumentParser(prog="app")
        parser.add_argument("--port", type=int)
        parsed = parse_cmdline(ctx, parser)
        if parsed is not None:
            ctx.provide(PORT, Publishing(parsed.port))

    def report(ctx, config):
        print("config", config, flush=True)
        print("args", list(ctx.get(CMDLINE).args), flush=True)
        ctx.get(APP_EXIT)((config or {}).get("code", 0))
        ctx.get(APP_EXIT)(99)
        return lambda: print("unloaded", flush=True)

    report.inject = (APP_EXIT, CMDLINE)

    def stays(ctx, config):
        print("ready", flush=True)
        return lambda: print("unloaded", flush=True)

    stays.inject = (APP_EXIT,)

    def serves(ctx, config):
        print("ready", flush=True)

    def slow_start(ctx, config):
        async def body():
            print("ready", flush=True)
            await asyncio.sleep(0.2)
            print("started", flush=True)
            return lambda: print("unloaded", flush=True)
        return body()

    slow_start.inject = (APP_EXIT,)

    async def stuck(ctx, config):
        atexit.register(lambda: Path("hook").write_text("ran"))
        async def never():
            print("stuck", flush=True)
            await asyncio.Event().wait()
        print("ready", flush=True)
        return never

    stuck.inject = (APP_EXIT,)

    def one_shot(ctx, config):
        async def work():
            with ctx[APP_EXIT].one_shot():
                print("ready", flush=True)
                await asyncio.Event().wait()
        ctx.spawn(work)

    one_shot.inject = (APP_EXIT,)

    def fails_later(ctx, config):
        async def orphan(text):
            raise RuntimeError(text)
        def later():
            loop = asyncio.get_running_loop()
            loop.call_soon(boom, "first")
            loop.call_soon(boom, "second")
        def boom(text):
            raise RuntimeError(text)
        asyncio.get_running_loop().call_later(0.01, later)
        return lambda: print("unloaded", flush=True)

    fails_later.inject = (APP_EXIT,)

    def broken(ctx, config):
        raise ValueError("boom")

    def warns(ctx, config):
        logging.getLogger("dsh.demo").warning("look out")
        ctx.get(APP_EXIT)(0)

    def quits(ctx, config):
        print("quits", flush=True)
        ctx.root.fiber.dispose()
        return lambda: print("unloaded", flush=True)

    def waits(ctx, config):
        pass

    waits.inject = (ServiceKey("never_provided"),)

    def command(argv, environment):
        print("command", argv, environment.get("MARK"))
        return 7
"""


class Launcher:
    """Runs `python -m dsh_cli` with a home, a working directory and a site of its own."""

    def __init__(self, directory: Path) -> None:
        self.site = directory / "site"
        self.home = directory / "home"
        self.cwd = directory / "work"
        self.cwd.mkdir()
        self.site.mkdir()
        self._running: list[subprocess.Popen[str]] = []

    def bundle(self, patch: str) -> None:
        """Install bundle and profile template `tapp` with these rows."""
        package = self.site / "tapp"
        (package / "template").mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text("")
        (package / "plugins.py").write_text(textwrap.dedent(PLUGINS))
        (package / "cordis.patch.yml").write_text(textwrap.dedent(patch))
        (package / "template" / "pyproject.toml").write_text(
            '[project]\nname = "dsh-profile-tapp-user"\nversion = "0"\n'
            '[tool.dsh.profile]\nbundles = ["tapp"]\n'
        )
        (package / "template" / "cordis.patch.yml").write_text("[]\n")
        info = self.site / "tapp-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "entry_points.txt").write_text(
            "[dsh.bundles]\ntapp = tapp\n\n[dsh.profiles]\ntapp = tapp\n\n"
            "[dsh.commands]\ntool = tapp.plugins:command\n"
        )

    def row(self, plugin: str, rest: str = "") -> None:
        """Install the bundle with one row `app` of that plugin."""
        self.bundle(f"[{{insert: [{{id: app, name: 'tapp.plugins:{plugin}'{rest}}}]}}]")

    @property
    def environment(self) -> dict[str, str]:
        """A small environment: nothing of the developer's reaches the process."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.cwd),
            "PYTHONPATH": str(self.site),
            "DSH_HOME": str(self.home),
        }

    def command(self, *args: str) -> list[str]:
        """The command line of `dsh ARGS`."""
        return [sys.executable, "-m", "dsh_cli", *args]

    def run(
        self, *args: str, env: Mapping[str, str] | None = None, prefix: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run `dsh ARGS` to its end with nothing on stdin."""
        return subprocess.run(
            [*prefix, *self.command(*args)],
            cwd=self.cwd,
            env={**self.environment, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=18,
            check=False,
        )

    def start(self, *args: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Start `dsh ARGS`; ended with the test if it still runs."""
        process = subprocess.Popen(
            self.command(*args),
            cwd=self.cwd,
            env=self.environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running.append(process)
        return process

    def close(self) -> None:
        """End what a failed test left."""
        for process in self._running:
            process.kill()
            process.communicate()


@pytest.fixture
def dsh(tmp_path: Path) -> Iterator[Launcher]:
    """The launcher."""
    launcher = Launcher(tmp_path)
    yield launcher
    launcher.close()
