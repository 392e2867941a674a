"""Runs the benchmarks in the environment of this interpreter and prints a table.

Ours and the floor run in turn, `--pairs` times after one warm-up; each ratio is the median of the
ratios of the pairs, because seconds drift with the machine. Step and delta are marginal: a long run
less a short one, so that starting up does not blur them. The row `kernel` stands for those of
kernel.py, which have the plain Python form of the same work beside them, and `site`.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PYTHON = sys.executable
DSH = str(Path(PYTHON).with_name("dsh"))


@dataclass(frozen=True)
class Run:
    """One finished process."""

    wall_s: float
    rss_mb: float


@dataclass
class Bench:
    """Commands against one model server, in a home and workspace of their own."""

    env: dict[str, str]
    workspace: Path
    pairs: int

    def run(self, command: Sequence[str]) -> Run:
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=self.workspace,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert process.stderr is not None
        err = process.stderr.read()
        _pid, status, usage = os.wait4(process.pid, 0)
        took = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{command} failed: {err.decode()}")
        return Run(took, usage.ru_maxrss / 1024)

    def pair(self, ours: Callable[[], float], floor: Callable[[], float]) -> tuple[float, ...]:
        """Medians of ours, floor and their ratio over interleaved pairs."""
        ours(), floor()
        both = [(ours(), floor()) for _ in range(self.pairs)]
        return (
            statistics.median(a for a, _ in both),
            statistics.median(b for _, b in both),
            statistics.median(a / b for a, b in both),
        )

    def median(self, measure: Callable[[], float]) -> float:
        measure()
        return statistics.median(measure() for _ in range(self.pairs))

    def ours(self, prompt: str) -> Run:
        return self.run([DSH, "headless", prompt])

    def floor(self, prompt: str) -> Run:
        return self.run([PYTHON, str(HERE / "floor.py"), prompt])

    def marginal(self, command: Callable[[str], Run], many: str, few: str, count: int) -> float:
        return (command(many).wall_s - command(few).wall_s) / count

    def kernel(self, row: str) -> str:
        """What kernel.py prints of one of its rows, measured in a process of its own."""
        done = subprocess.run(
            [PYTHON, str(HERE / "kernel.py"), row, f"--pairs={self.pairs}"],
            env=self.env,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout.rstrip("\n")

    def log(self, what: str, count: int) -> float:
        done = subprocess.run(
            [PYTHON, str(HERE / "log.py"), what, str(count)],
            env=self.env,
            capture_output=True,
            text=True,
            check=True,
        )
        return float(done.stdout)


@contextmanager
def bench(pairs: int) -> Any:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "workspace").mkdir()
        server = subprocess.Popen(
            [PYTHON, str(HERE / "model.py")], stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout is not None
            env = {
                **os.environ,
                "DSH_HOME": str(root / "home"),
                "DEEPSEEK_BASE_URL": server.stdout.readline().strip(),
                "DEEPSEEK_API_KEY": "bench",
            }
            yield Bench(env, root / "workspace", pairs)
        finally:
            server.terminate()
            server.wait()


def cold(b: Bench) -> str:
    prompt = "@tools=2"
    ours, floor, ratio = b.pair(lambda: b.ours(prompt).wall_s, lambda: b.floor(prompt).wall_s)
    return f"cold one-shot, 2 tool steps | {ours:.3f} s | {floor:.3f} s | {ratio:.2f} | 1.5"


def step(b: Bench) -> str:
    many, few = "@tools=102", "@tools=2"
    ours, floor, ratio = b.pair(
        lambda: b.marginal(b.ours, many, few, 100), lambda: b.marginal(b.floor, many, few, 100)
    )
    return f"tool step | {ours * 1e3:.2f} ms | {floor * 1e3:.2f} ms | {ratio:.2f} | 3"


def delta(b: Bench) -> str:
    many, few = "@chunks=40000", "@chunks=5"
    ours, floor, ratio = b.pair(
        lambda: b.marginal(b.ours, many, few, 39_995),
        lambda: b.marginal(b.floor, many, few, 39_995),
    )
    return f"streamed delta | {ours * 1e6:.1f} us | {floor * 1e6:.1f} us | {ratio:.2f} | 1.8"


def memory(b: Bench) -> str:
    ours, floor, ratio = b.pair(
        lambda: b.ours("@tools=2").rss_mb, lambda: b.floor("@tools=2").rss_mb
    )
    return f"peak RSS, one-shot | {ours:.0f} MB | {floor:.0f} MB | {ratio:.2f} | 60 MB"


def boot(b: Bench) -> str:
    took = b.median(lambda: b.run([DSH, "headless", "--dump-config"]).wall_s)
    return f"boot (--dump-config) | {took:.3f} s | | | 0.25 s"


def agents(b: Bench) -> str:
    prompt = "@tools=3 @cmd=true @delay=20"
    ours, floor, ratio = b.pair(
        lambda: b.run([PYTHON, str(HERE / "agents.py"), prompt, "100"]).wall_s,
        lambda: b.run([PYTHON, str(HERE / "floor.py"), prompt, "100"]).wall_s,
    )
    return f"100 agents, 3 steps | {ours:.2f} s | {floor:.2f} s | {ratio:.2f} | 0.7"


def appends(b: Bench) -> str:
    memory_s = b.median(lambda: b.log("append", 100_000)) / 100_000
    durable_s = b.median(lambda: b.log("durable", 100_000)) / 100_000
    return (
        f"append in memory / durable | {memory_s * 1e6:.1f} / {durable_s * 1e6:.1f} us | | "
        "| 5 / 15 us"
    )


def reopen(b: Bench) -> str:
    took = b.median(lambda: b.log("reopen", 100_000))
    return f"reopen 100,000 events | {took:.3f} s | | | 0.3 s"


def site(b: Bench) -> str:
    """The start beside as many distributions as environments have, each with an entry point."""
    command = [DSH, "--profile", "headless", "--dump-config"]
    with tempfile.TemporaryDirectory() as directory:
        lines: list[str] = []
        for count in (20, 200):
            path = Path(directory) / str(count)
            for index in range(count):
                write_distribution(path, f"installed-{index}")
            crowded = dataclasses.replace(b, env={**b.env, "PYTHONPATH": str(path)})
            ours, floor, ratio = b.pair(
                lambda crowded=crowded: crowded.run(command).wall_s, lambda: b.run(command).wall_s
            )
            lines.append(
                f"boot (`--dump-config`) with {count} more distributions | {ours:.3f} s | "
                f"{floor:.3f} s (without) | {ratio:.2f} | 0.25 s"
            )
    return "\n".join(lines)


def write_distribution(path: Path, name: str) -> None:
    """What an installer leaves of a distribution that has nothing to do with the harness."""
    module = name.replace("-", "_")
    info = path / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    info.joinpath("RECORD").write_text("")
    info.joinpath("entry_points.txt").write_text(f"[console_scripts]\n{name} = {module}:main\n")
    path.joinpath(f"{module}.py").write_text("def main(): ...\n")


def mount(b: Bench) -> str:
    return b.kernel("mount")


def waterfall(b: Bench) -> str:
    return b.kernel("waterfall")


def dispatch(b: Bench) -> str:
    return b.kernel("dispatch")


def reads(b: Bench) -> str:
    return b.kernel("reads")


def rows(b: Bench) -> str:
    return b.kernel("rows")


KERNEL = (mount, waterfall, dispatch, reads, rows, site)
LOOP = (cold, step, delta, memory, boot, agents, appends, reopen)
ROWS = {row.__name__: row for row in (*LOOP, *KERNEL)}
GROUPS = {"kernel": [row.__name__ for row in KERNEL]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join((*ROWS, *GROUPS)))
    parser.add_argument("--pairs", type=int, default=15)
    options = parser.parse_args()
    sys.stdout.write("| Work | Ours | Beside it | Ratio | At most |\n|---|---|---|---|---|\n")
    with bench(options.pairs) as b:
        for asked in options.rows or list(ROWS):
            for name in GROUPS.get(asked, [asked]):
                for line in ROWS[name](b).splitlines():
                    sys.stdout.write(f"| {line} |\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
