"""Whatever is wrong with what a person gave: one clear error with the remedy, exit 1, no trace."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from dsh_llm_mock_server import Reply


def failed(done, *parts: str) -> str:
    """The error of a failed run: no traceback, an empty stdout, each of `parts` in it."""
    assert (done.code, done.stdout) == (1, ""), done.stderr
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr
    return done.stderr


@pytest.fixture
def profile(dsh, model):
    """The directory of the headless profile after a first run."""
    model([Reply.text("ok")])
    assert dsh.run("headless", "x").code == 0
    return dsh.home / "profiles" / "headless"


def test_a_missing_profile_names_the_installed_ones(dsh):
    failed(dsh.run("nosuch", "x"), "nosuch", "headless")


def test_a_patch_that_is_not_there_is_named(dsh):
    failed(dsh.run("--patch", "nosuch.yml", "headless", "x"), "nosuch.yml")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("- id: [", "bad.yml"),
        ("a: 1\n", "bad.yml"),
        ("", "bad.yml"),
        ("- 3\n", "bad.yml"),
        ("- {id: tools, config: {a: 1, a: 2}}\n", "duplicate"),
        ("- insert: [{id: x, name: no-such-plugin}]\n", "no-such-plugin"),
        ("- insert: [{id: x, name: ./nosuch.py}]\n", "nosuch.py"),
        ("- {id: bash-local, config: {timeuotMs: 5}}\n", "timeoutMs"),
        ("- {id: bash-local, config: {timeoutMs: soon}}\n", "timeoutMs"),
        ("- {id: bash-local, config: {timeoutMs: !expr \"__import__('os')\"}}\n", "bash-local"),
        ("- {id: bash-local, isolate: [shell]}\n", "isolate"),
        ("- insert: [{id: x, name: ./waits.py}]\n", "it waits for the service never_there"),
    ],
)
def test_a_bad_layer_is_explained(dsh, model, text, part):
    model([])
    (dsh.workspace / "bad.yml").write_text(text)
    (dsh.workspace / "waits.py").write_text(
        "from dsh_cordis import ServiceKey\n"
        "inject = (ServiceKey('never_there'),)\n"
        "def apply(ctx, config): pass\n"
    )
    error = failed(dsh.run("--strict", "--patch", "bad.yml", "headless", "x"), part)
    assert dsh.sessions() == []
    assert error.count("\n") <= 6


def test_a_plugin_that_raises_shows_its_author_where(dsh, model):
    model([])
    (dsh.workspace / "breaks.py").write_text(
        "def apply(ctx, config):\n    raise ValueError('broken on purpose')\n"
    )
    (dsh.workspace / "bad.yml").write_text("- insert: [{id: mine, name: ./breaks.py}]\n")
    done = dsh.run("--strict", "--patch", "bad.yml", "headless", "x")
    assert (done.code, done.stdout) == (1, "")
    assert "dsh: row 'mine' (" in done.stderr
    assert 'breaks.py", line 2' in done.stderr
    assert done.stderr.endswith("ValueError: broken on purpose\n")


@pytest.mark.parametrize(
    "source",
    [
        "import sys\nsys.exit(3)\n",
        "import sys\ndef apply(ctx, config):\n    sys.exit(3)\n",
        "import asyncio\ndef apply(ctx, config):\n    raise asyncio.CancelledError\n",
        "class Odd(BaseException): pass\ndef apply(ctx, config):\n    raise Odd\n",
        "def apply(ctx, config):\n    raise KeyboardInterrupt\n",
    ],
)
def test_a_plugin_that_stops_as_it_loads_ends_the_run_with_a_reason(dsh, model, source):
    server = model([])
    (dsh.workspace / "stops.py").write_text(source)
    (dsh.workspace / "bad.yml").write_text("- insert: [{id: mine, name: ./stops.py}]\n")
    done = dsh.run("--strict", "--patch", "bad.yml", "headless", "x")
    assert (done.code, done.stdout) == (1, "")
    assert "stops.py" in done.stderr
    assert server.requests == []


@pytest.mark.parametrize("key", ["SESSION_FLUSH", "SESSION_CREATED", "SESSION_EVENT"])
def test_a_listener_that_brings_up_a_cancellation_is_never_a_silent_failure(dsh, model, key):
    model([Reply.text("ok")])
    (dsh.workspace / "stops.py").write_text(
        "import asyncio, dsh_session\n"
        "def plain(*args): raise asyncio.CancelledError\n"
        "async def later(*args): raise asyncio.CancelledError\n"
        "def apply(ctx, config):\n"
        f"    ctx.on(dsh_session.{key}, {'later' if key == 'SESSION_FLUSH' else 'plain'})\n"
    )
    (dsh.workspace / "bad.yml").write_text("- insert: [{id: mine, name: ./stops.py}]\n")
    done = dsh.run("--patch", "bad.yml", "headless", "x")
    code = {"SESSION_FLUSH": "UNKNOWN", "SESSION_CREATED": "LISTENER_STOPPED"}.get(key)
    assert done.code == (0 if code is None else 1)
    assert ("stops.py" if code is None else f"dsh: {code}: ") in done.stderr


def test_a_broken_profile_manifest_is_explained(dsh, profile):
    (profile / "pyproject.toml").write_text("[project\n")
    failed(dsh.run("headless", "x"), "pyproject.toml")


def test_a_bundle_that_is_not_installed_is_named(dsh, profile):
    manifest = profile / "pyproject.toml"
    manifest.write_text(manifest.read_text().replace('"dsh-headless"', '"dsh-nosuch"'))
    failed(dsh.run("headless", "x"), "dsh-nosuch")


def test_a_dotenv_that_redirects_requests_refuses_the_launch(dsh, model):
    server = model([])
    (dsh.workspace / ".env").write_text("DEEPSEEK_BASE_URL=http://127.0.0.1:1\nOTHER=1\n")
    failed(dsh.run("headless", "x"), ".env", "DEEPSEEK_BASE_URL")
    assert server.requests == []


def test_a_key_in_a_dotenv_is_used(dsh, model):
    server = model([Reply.text("ok")])
    del dsh.env["DEEPSEEK_API_KEY"]
    (dsh.workspace / ".env").write_text("DEEPSEEK_API_KEY=from-dotenv\n")
    assert dsh.run("headless", "x").code == 0
    headers = {name.lower(): value for name, value in server.requests[0].headers.items()}
    assert headers["authorization"] == "Bearer from-dotenv"


def test_the_key_is_in_no_file_and_no_child(dsh, model):
    model([Reply.call("bash", {"command": "env", "description": "d"}), Reply.text("ok")])
    done = dsh.headless("x")
    assert "test-key" not in done.stdout
    import zstandard

    reader = zstandard.ZstdDecompressor()
    for path in dsh.home.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            if path.suffix == ".zstd":
                with reader.stream_reader(data, read_across_frames=True) as stream:
                    data = stream.read()
            assert b"test-key" not in data


needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")


@pytest.fixture
def read_only_home(dsh):
    """Puts `dsh` on a home that nobody can write, root included."""

    def bind() -> None:
        dsh.home.mkdir(parents=True, exist_ok=True)
        home = str(dsh.home)
        dsh.prefix = ("bwrap", "--dev-bind", "/", "/", "--ro-bind", home, home)
        probe = subprocess.run([*dsh.prefix, "true"], capture_output=True, check=False)
        if probe.returncode:
            pytest.skip("bubblewrap cannot make namespaces here")

    return bind


@needs_bubblewrap
def test_a_fresh_home_that_cannot_be_written_is_one_clear_error(dsh, model, read_only_home):
    server = model([])
    read_only_home()
    error = failed(dsh.run("headless", "x"), str(dsh.home))
    assert "DSH_HOME" in error
    assert server.requests == []


@needs_bubblewrap
def test_a_home_that_became_read_only_fails_before_the_model_is_asked(
    dsh, model, profile, read_only_home
):
    server = model([])
    read_only_home()
    failed(dsh.headless("x"), str(dsh.home), "DSH_HOME")
    assert server.requests == []


READ = """
import asyncio, sys
from dsh_cordis import Context
from dsh_llm import SessionId
from dsh_session import SessionStore
from dsh_session_persistence import SESSION_PERSISTENCE
from dsh_session_persistence_jsonl import JsonlSessionPersistence
async def main():
    async with Context() as root:
        await root.plugin(SessionStore)
        await root.plugin(JsonlSessionPersistence, {"root": sys.argv[1]})
        stored = await root[SESSION_PERSISTENCE].list()
        for header in stored:
            session = await root[SESSION_PERSISTENCE].inspect(SessionId(header.id))
            print(header.id, session.events[-1].type)
asyncio.run(main())
"""


@needs_bubblewrap
def test_sessions_of_a_read_only_home_stay_readable(dsh, profile, read_only_home):
    import sys

    read_only_home()
    done = subprocess.run(
        [*dsh.prefix, sys.executable, "-c", READ, str(dsh.home / "sessions")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith("turn/end\n"), done.stderr


def test_an_error_of_a_tool_never_ends_the_process(dsh, model):
    model(
        [
            Reply.call("read", {"file_path": "/proc/self/mem"}),
            Reply.call("write", {"file_path": "/proc/nosuch/x", "content": "x"}),
            Reply.call("bash", {"command": "exit 3", "description": "d", "workdir": "nosuch"}),
            Reply.text("still here"),
        ]
    )
    done = dsh.headless("x")
    assert (done.code, done.lines[-1]["text"]) == (0, "still here")
    assert [line["status"] for line in done.of("tool_result")] == ["error"] * 3
