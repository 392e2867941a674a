"""Nobody gets locked out: whatever is wrong in one's own rows and files, the task still gets done.

The same mistakes are shown to `dsh doctor`, refused by `--strict` and out of the way with `--safe`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dsh_llm_mock_server import MockServer, Reply

NO_SANDBOX = "dsh: no sandbox: commands and file changes have your own rights"
SHORT = {"DSH_ACTIVATION_TIMEOUT_MS": "600"}
REMEDY = re.compile(r"with: dsh (plugin --profile headless remove \S+)$")

FILES = {
    "raises.py": "raise ValueError('broken on purpose')\n",
    "exits.py": "import sys\nsys.exit(3)\n",
    "interrupts.py": "raise KeyboardInterrupt\n",
    "cancels.py": "import asyncio\nraise asyncio.CancelledError\n",
    "panics.py": "class Panic(BaseException): pass\n"
    "async def apply(ctx, config):\n    raise Panic('in an extension')\n",
    "misspelt.py": "def apply(ctx, config:\n",
    "runs.py": "def apply(ctx, config): pass\n",
    "twin.py": "from dsh_cordis import ServiceKey\n"
    "def apply(ctx, config): ctx.provide(ServiceKey('twin'), object())\n",
    "imports.py": "import no_such_distribution\n",
    "waits.py": "from dsh_cordis import ServiceKey\n"
    "inject = (ServiceKey('never_there'),)\ndef apply(ctx, config): pass\n",
    "provides.py": "from dsh_cordis import ServiceKey\ndef apply(ctx, config):\n"
    "    ctx.provide(ServiceKey('mine'), object())\n    raise ValueError('after providing')\n",
    "follows.py": "from dsh_cordis import ServiceKey\n"
    "inject = (ServiceKey('mine'),)\ndef apply(ctx, config): pass\n",
    "hangs.py": "import asyncio\nasync def apply(ctx, config):\n    await asyncio.Event().wait()\n",
    "shell.py": "from dsh_cordis import ServiceKey\n"
    "def apply(ctx, config): ctx.provide(ServiceKey('shell'), object())\n",
    "typed.py": "import msgspec\nclass Config(msgspec.Struct):\n    size: int = 1\n"
    "def apply(ctx, config): pass\n",
    "refuses.py": "from dsh_cordis import Internal\ndef refuse(*args):\n"
    "    raise RuntimeError('no configuration is good enough')\n"
    "def apply(ctx, config): ctx.on(Internal.CONFIG, refuse)\n",
    "stuck.py": "import time\ndef apply(ctx, config):\n    time.sleep(600)\n",
    "stuck_import.py": "import time\ntime.sleep(600)\n",
}


@pytest.fixture
def home(dsh: Any, model: Callable[..., MockServer]) -> Path:
    """The directory of a profile that was used once, with plugins of all kinds beside it."""
    model(lambda _request: Reply.text("done"))
    assert dsh.run("headless", "x").code == 0
    directory = dsh.home / "profiles" / "headless"
    for name, text in FILES.items():
        (directory / name).write_text(text)
    return directory


def told(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line != NO_SANDBOX]


def done(run: Any) -> None:
    assert (run.code, run.stdout) == (0, "done\n"), run.stderr


ROWS = [
    ("name: ./raises.py", "ValueError: broken on purpose (at {home}/raises.py:1)"),
    ("name: ./exits.py", "it tried to exit the process (3) (at {home}/exits.py:2)"),
    ("name: ./interrupts.py", "it raised KeyboardInterrupt() (at {home}/interrupts.py:1)"),
    ("name: ./cancels.py", "CancelledError (at {home}/cancels.py:2)"),
    ("name: ./panics.py", "it raised Panic('in an extension') (at {home}/panics.py:3)"),
    ("name: ./misspelt.py", "SyntaxError: "),
    ("name: ./imports.py", "No module named 'no_such_distribution'"),
    ("name: ./waits.py", "it waits for the service never_there"),
    ("name: dsh-tool-bahs", "no plugin 'dsh-tool-bahs': installed are dsh-tool-bash"),
    ("name: no_such_module:Plugin", "there is no module 'no_such_module'"),
    ("name: ./nosuch.py", "there is no Python file {home}/nosuch.py"),
    ("name: ./hangs.py", "it was not active after 600 ms"),
    ("name: ./shell.py", "'shell'"),
    ("name: ./typed.py, config: {size: big}", "invalid config of r"),
    ("name: ./typed.py, config: {sise: 1}", 'unknown key "sise"'),
    ("name: ./typed.py, config: {size: !expr nope}", "unknown name 'nope'"),
    ("name: ./typed.py, config: {size: !expr '1 +'}", "!expr '1 +'"),
    ("name: ./typed.py, disabled: !expr nope", "unknown name 'nope'"),
    ("name: ./typed.py, inject: [never_there]", "it waits for the service never_there"),
    ("name: ./provides.py", "ValueError: after providing"),
    ("name: ./follows.py", "it waits for the service mine"),
    ("name: 'cordis:include', config: {path: ./none.yml}", "{home}/none.yml"),
]
"""A row of the user's and the reason that is told of it."""


MORE = """\
- insert:
    - {id: ok, name: ./typed.py}
    - id: group
      name: cordis:group
      config: [{id: r98, name: ./raises.py}, {id: in, name: ./runs.py}]
    - {id: twin, name: ./twin.py}
    - {id: r99, name: ./twin.py}
"""
"""Rows that run, and of two kinds those that do not."""


def test_every_failing_row_is_left_out_with_its_reason_and_the_command_that_removes_it(
    dsh: Any, home: Path
) -> None:
    patch = home / "cordis.patch.yml"
    rows = [f"    - {{id: r{n}, {row}}}\n" for n, (row, _) in enumerate(ROWS)]
    patch.write_text("# mine\n- insert:\n" + "".join(rows) + MORE)
    expected = {f"r{number}": reason for number, (_, reason) in enumerate(ROWS)}
    expected |= {"r98": "ValueError", "r99": 'service "twin" has been registered at <twin>'}
    run = dsh.run("headless", "--json", "x", env=SHORT)
    assert (run.code, run.lines[-1]) == (0, {"type": "final", "text": "done"}), run.stderr
    lines = {line.split("'")[1]: line for line in told(run.stderr)}
    assert lines.keys() == expected.keys()
    for row, reason in expected.items():
        line = lines[row]
        assert line.startswith(f"dsh: row '{row}' ("), line
        assert ") is left out: " in line
        assert reason.format(home=home) in line
        remedy = REMEDY.search(line)
        assert remedy is not None, line
        assert f"it comes from {patch}; remove it with: " in line
        assert remedy[1] == f"plugin --profile headless remove {row}"
    examined = dsh.run("doctor", env=SHORT)
    assert examined.code == 1
    assert all(f"row {row} (" in examined.stdout for row in expected)
    strict = dsh.run("--strict", "headless", "x", env=SHORT)
    assert (strict.code, strict.stdout) == (1, "")
    refused = {line.replace(") fails: ", ") is left out: ") for line in told(strict.stderr)}
    assert {line for row, line in lines.items() if row != "r99"} <= refused
    safe = dsh.run("headless", "--safe", "x", env=SHORT)
    done(safe)
    assert told(safe.stderr) == []
    assert dsh.run("plugin", "--profile", "headless", "remove", "r0").code == 0
    fewer = dsh.run("headless", "x", env=SHORT)
    assert {line.split("'")[1] for line in told(fewer.stderr)} == expected.keys() - {"r0"}
    assert dsh.run("plugin", "--profile", "headless", "remove", *expected.keys() - {"r0"}).code == 0
    clean = dsh.run("headless", "--strict", "x", env=SHORT)
    done(clean)
    assert told(clean.stderr) == []
    kept = patch.read_text()
    assert all(part in kept for part in ("# mine", "typed.py", "runs.py", "twin.py"))
    healthy = dsh.run("doctor")
    assert healthy.code == 0, healthy.stdout


@pytest.mark.parametrize(
    ("patch", "row", "reason"),
    [
        ("{id: bash-local, config: {timeoutMs: soon}}", "bash-local", "timeoutMs"),
        ("{id: bash-local, config: {timeoutMs: !expr nope}}", "bash-local", "unknown name 'nope'"),
        ("{id: tools, inject: [never_there]}", "tools", "it waits for the service never_there"),
        ("{id: tools, disabled: true}", "tools", "waits for the service tools"),
        ("{id: llm, disabled: true}", "llm", "does not start otherwise"),
    ],
)
def test_a_bundle_row_runs_without_the_changes_that_break_it(
    dsh: Any, home: Path, patch: str, row: str, reason: str
) -> None:
    file = dsh.home / "cordis.patch.yml"
    file.write_text(f"- {patch}\n- {{id: tool-todo, config: {{allowParallelInProgress: false}}}}\n")
    run = dsh.run("headless", "x", env=SHORT)
    done(run)
    (line,) = told(run.stderr)
    assert line.startswith(f"dsh: row '{row}' (")
    assert f"runs without the changes of {file}: " in line
    assert reason in line
    remedy = REMEDY.search(line)
    assert remedy is not None
    assert dsh.run("--strict", "headless", "x", env=SHORT).code == 1
    assert dsh.run(*remedy[1].split()).code == 0
    assert "tool-todo" in file.read_text()
    assert told(dsh.run("headless", "x").stderr) == []


def test_what_makes_bundle_rows_fail_is_found_and_left_out(dsh: Any, home: Path) -> None:
    (home / "cordis.patch.yml").write_text("- insert: [{id: d, name: ./refuses.py}]\n")
    run = dsh.run("headless", "x", env=SHORT)
    done(run)
    assert any(line.startswith("dsh: row 'd' (") for line in told(run.stderr)), run.stderr


def test_a_patch_file_that_cannot_be_used_is_left_out_whole(dsh: Any, home: Path) -> None:
    files = [home / "cordis.patch.yml", dsh.home / "cordis.patch.yml"]
    contents = {
        b"": "write [] for none",
        b"- insert:\n    - {id: a, na": ":3:1: ",
        b"- insert:\n\t- {id: a, name: b}\n": ":2:1: ",
        b"\x00\x01\xff" * 1_000_000: "",
        b"- {id: tools, disabled: true, disabled: false}\n": ":1:",
        b"- {id: tools, isolate: [x]}\n": "entry 1",
    }
    for content, reason in contents.items():
        for file in files:
            file.write_bytes(content)
        run = dsh.run("headless", "x")
        done(run)
        for file, line in zip(files, told(run.stderr), strict=True):
            assert line.startswith(f"dsh: {file} is left out: ")
            assert reason in line
            assert "; correct it ([] is an empty one)" in line
    strict = dsh.run("--strict", "headless", "x")
    assert (strict.code, strict.stdout) == (1, "")
    assert f"dsh: {files[0]} cannot be used: " in strict.stderr
    safe = dsh.run("headless", "--safe", "x")
    done(safe)
    assert told(safe.stderr) == []
    examined = dsh.run("doctor")
    assert examined.code == 1
    assert all(str(file) in examined.stdout for file in files)


def test_a_patch_file_that_is_a_pipe_is_never_waited_for(dsh: Any, home: Path) -> None:
    patch = home / "cordis.patch.yml"
    patch.unlink()
    os.mkfifo(patch)
    run = dsh.run("headless", "x")
    done(run)
    assert told(run.stderr)[0].startswith(f"dsh: {patch} is left out: {patch}: it is no regular")


def test_a_patch_for_a_row_that_is_not_there_is_told_and_removed(dsh: Any, home: Path) -> None:
    patch = home / "cordis.patch.yml"
    patch.write_text("- {id: nobody, disabled: true}\n- {id: tools, name: ./runs.py, config: {}}\n")
    run = dsh.run("headless", "x")
    done(run)
    missing, other = told(run.stderr)
    remove = "correct its id, or remove it with: dsh plugin --profile headless remove"
    assert missing.endswith(f'[{patch}] patch: entry "nobody" not found; {remove} nobody')
    assert other.endswith(f"skipped; {remove} tools")
    strict = dsh.run("--strict", "headless", "x")
    assert (strict.code, strict.stdout) == (1, "")
    assert set(told(run.stderr)) < set(strict.stderr.splitlines())
    assert told(dsh.run("headless", "--safe", "x").stderr) == []
    assert 'entry "nobody" not found' in dsh.run("doctor").stdout
    assert dsh.run("plugin", "--profile", "headless", "remove", "nobody", "tools").code == 0
    assert told(dsh.run("headless", "--strict", "x").stderr) == []


def test_a_plugin_that_was_removed_by_hand_is_told_with_what_brings_it_back(
    dsh: Any, home: Path
) -> None:
    manifest = home / "pyproject.toml"
    shipped = manifest.read_text()
    manifest.write_text(
        shipped.replace("dependencies = []", 'dependencies = ["far-away"]').replace(
            '"dsh-headless"]', '"dsh-headless", "far-away"]'
        )
    )
    assert "far-away" in manifest.read_text()
    (home / "sites").mkdir()
    (home / "sites" / "current").symlink_to("gone-cp311")
    (home / "cordis.patch.yml").write_text("- insert: [{id: far, name: far-away}]\n")
    run = dsh.run("headless", "x")
    done(run)
    site, bundle, row = told(run.stderr)
    assert site.endswith("run: dsh plugin --profile headless sync")
    assert bundle.startswith("dsh: far-away is left out: ")
    assert "install it with: dsh plugin --profile headless sync" in bundle
    assert row.startswith("dsh: row 'far' (far-away) is left out: ")
    assert dsh.run("--strict", "headless", "x").code == 1
    assert told(dsh.run("headless", "--safe", "x").stderr) == []
    examined = dsh.run("doctor")
    assert examined.code == 1
    assert examined.stdout.count("far-away") >= 2
    assert dsh.run("plugin", "--profile", "headless", "remove", "far-away", "far").code == 0
    assert told(dsh.run("headless", "--strict", "x").stderr) == []


def test_an_overlay_that_fails_is_told_by_its_flag(dsh: Any, home: Path) -> None:
    overlay = dsh.workspace / "mine.yml"
    overlay.write_text(f"- insert: [{{id: r, name: {home / 'raises.py'}}}]\n")
    run = dsh.run("--patch", "mine.yml", "headless", "x")
    done(run)
    (line,) = told(run.stderr)
    assert line.endswith(f"it comes from {overlay}; leave out --patch {overlay}")


@pytest.mark.parametrize(("file", "line"), [("stuck.py", 3), ("stuck_import.py", 2)])
def test_what_holds_up_the_start_for_good_is_named_with_its_line_and_remedy(
    dsh: Any, home: Path, file: str, line: int
) -> None:
    (home / "cordis.patch.yml").write_text(f"- insert: [{{id: s, name: ./{file}}}]\n")
    run = dsh.run("headless", "x", env=SHORT)
    assert (run.code, run.stdout) == (1, "")
    assert run.stderr == (
        f"dsh: row 's' has held up the start for 0.6 s (at {home / file}:{line}); remove it with: "
        "dsh plugin --profile headless remove s; start without your own rows with: "
        "dsh headless --safe\n"
    )
    if "import" in file:
        examined = dsh.run("doctor", "--profile", "headless", env=SHORT)
        assert examined.code == 1
        assert f"row 's' has held up the start for 0.6 s (at {home / file}:{line})" in (
            examined.stdout
        )
    done(dsh.run("headless", "--safe", "x"))
    assert dsh.run("plugin", "--profile", "headless", "remove", "s").code == 0
    done(dsh.run("headless", "x", env=SHORT))


STORES = """\
from dsh_agent import AGENT_PRE_STEP
from dsh_cordis_loader import LOADER, LoaderError

inject = (LOADER,)


def apply(ctx, config):
    async def change(payload, next):
        loader = ctx[LOADER]
        try:
            await loader.update("typed", {"config": {"size": "big"}})
        except LoaderError as error:
            print("refused", error.code, flush=True)
        await loader.update("typed", {"config": {"size": 7}})
        print("stored", flush=True)
        return await next()

    ctx.on(AGENT_PRE_STEP, change)
"""


def test_a_row_update_that_does_not_validate_is_never_written(dsh: Any, home: Path) -> None:
    (home / "stores.py").write_text(STORES)
    patch = home / "cordis.patch.yml"
    before = (
        "# rows of mine\n- insert:\n    - {id: typed, name: ./typed.py, config: {size: 5}} # five\n"
        "    - {id: stores, name: ./stores.py}\n"
    )
    patch.write_text(before)
    run = dsh.run("headless", "x")
    assert run.code == 0
    assert "refused" in run.stdout
    assert "stored" in run.stdout
    after = patch.read_text()
    assert "size: 7" in after
    assert "big" not in after
    assert "# rows of mine" in after
    assert patch.with_name("cordis.patch.yml.last-good").read_text() == before
    assert told(dsh.run("--strict", "headless", "x").stderr) == []


def test_a_plugin_that_takes_the_process_with_it_is_found_by_the_doctor(
    dsh: Any, home: Path
) -> None:
    (home / "takes.py").write_text("import os\nos._exit(7)\n")
    (home / "cordis.patch.yml").write_text(
        "- insert: [{id: fine, name: ./runs.py}, {id: t, name: ./takes.py}]\n"
    )
    assert dsh.run("headless", "x").code == 7
    examined = dsh.run("doctor")
    assert examined.code == 1
    assert f"ended with 7 as row 't' ({home}/takes.py) was started" in examined.stdout
    assert "remove it with: dsh plugin --profile headless remove t" in examined.stdout
    done(dsh.run("headless", "--safe", "x"))


def test_a_manifest_that_is_broken_leaves_the_safe_start(dsh: Any, home: Path) -> None:
    (home / "pyproject.toml").write_text("[tool.dsh")
    run = dsh.run("headless", "x")
    assert (run.code, run.stdout) == (1, "")
    assert "dsh headless --safe" in run.stderr
    done(dsh.run("headless", "--safe", "x"))


@pytest.mark.parametrize("bundles", ['["dsh-headless"]', '["no-such-bundle"]', "[]"])
def test_a_half_made_profile_is_explained(dsh: Any, home: Path, bundles: str) -> None:
    half = dsh.home / "profiles" / "half"
    half.mkdir()
    (half / "pyproject.toml").write_text(
        f'[project]\nname = "x"\nversion = "0"\n[tool.dsh.profile]\nbundles = {bundles}\n'
    )
    run = dsh.run("half", "x")
    assert (run.code, run.stdout) == (1, "")
    assert "dsh-base" in run.stderr
    assert "Traceback" not in run.stderr
    assert (
        "-headless" not in bundles or 'write bundles = ["dsh-base", "dsh-headless"]' in run.stderr
    )
    examined = dsh.run("doctor", "--profile", "half")
    assert examined.code == 1
    assert "error" in examined.stdout


def test_a_home_that_cannot_be_written_is_told_and_can_be_looked_at(dsh: Any, home: Path) -> None:
    dsh.prefix = ("bwrap", "--dev-bind", "/", "/", "--ro-bind", str(dsh.home), str(dsh.home))
    run = dsh.run("headless", "x")
    if "bwrap" in run.stderr:
        pytest.skip(f"no bubblewrap here: {run.stderr}")
    assert run.code == 1
    assert f"the harness home {dsh.home} cannot be written" in run.stderr
    assert "set DSH_HOME" in run.stderr
    dump = dsh.run("--profile", "headless", "--dump-config")
    assert (dump.code, dump.stderr) == (0, "")
    examined = dsh.run("doctor")
    assert examined.code == 1
    assert "cannot be written" in examined.stdout
    assert "20 rows run" in examined.stdout


def test_the_doctor_says_what_a_first_start_lacks(dsh: Any) -> None:
    examined = dsh.run("doctor", "--json", env={"DEEPSEEK_API_KEY": None})
    assert examined.code == 1
    errors = [line for line in examined.lines if line["level"] == "error"]
    assert [one["subject"] for one in errors] == ["profile headless: provider deepseek-official"]
    assert "DEEPSEEK_API_KEY" in errors[0]["message"]
    assert not dsh.home.exists()


def test_the_doctor_shows_no_secret_and_names_a_session_that_cannot_be_opened(
    dsh: Any, home: Path
) -> None:
    (session,) = dsh.sessions()
    session.write_bytes(b"garbage")
    examined = dsh.run("doctor", env={"DEEPSEEK_API_KEY": "sk-very-secret"})
    assert examined.code == 1
    assert str(session) in examined.stdout
    assert "sk-very-secret" not in examined.stdout + examined.stderr
