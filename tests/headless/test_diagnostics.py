"""What people mount to look inside a run: checks of promises, and a log to read."""

from __future__ import annotations

import re

from dsh_llm_mock_server import Reply

CHECKS = """
- insert:
    - {id: invariants, name: dsh-invariants}
    - {id: scope-invariant, name: dsh-scope/invariant}
"""

STRAY = """
- insert:
    - {id: stray, name: ./stray.py}
"""

CONSOLE = """
- insert:
    - {id: log, name: dsh-cordis-logger-console, config: {levels: {dsh.noisy: debug}, width: 100}}
    - {id: noisy, name: ./noisy.py}
"""

NOISY_PLUGIN = """
import logging
from dsh_agent import AGENT_SESSION_START

log = logging.getLogger("dsh.noisy")

async def work():
    log.debug("%s works", "it")
    try:
        raise LookupError("no such thing")
    except LookupError:
        log.exception("it went wrong")

def apply(ctx, config):
    # Every row stands by then, the one that shows the log too.
    ctx.on(AGENT_SESSION_START, lambda _: ctx.spawn(work))
"""

STRAY_PLUGIN = """
from dsh_agent import AGENT_SESSION_START, AGENT_STATUS, AgentStatusChanged
from dsh_scope import scope_target

def apply(ctx, config):
    def lie(payload):
        ctx.emit(AGENT_STATUS, AgentStatusChanged(payload.agent, "idle"), target=scope_target(None))
    ctx.on(AGENT_SESSION_START, lie)
"""


def test_a_run_keeps_what_the_scopes_promise(dsh, model):
    model([Reply.call("bash", {"command": "true", "description": "d"}), Reply.text("ok")])
    (dsh.workspace / "checks.yml").write_text(CHECKS)
    done = dsh.run("--patch", "checks.yml", "headless", "go")
    assert (done.code, done.stdout) == (0, "ok\n")
    assert done.stderr == "dsh: no sandbox: commands and file changes have your own rights\n"


def test_an_event_that_is_told_to_the_wrong_scope_is_a_violation_with_its_name(dsh, model):
    model([Reply.text("ok")])
    (dsh.workspace / "checks.yml").write_text(CHECKS + STRAY)
    (dsh.workspace / "stray.py").write_text(STRAY_PLUGIN)
    done = dsh.run("--patch", "checks.yml", "headless", "go")
    assert 'invariant violated by "dsh-scope": agent/status is dispatched' in done.stderr


def test_a_patch_gives_a_run_a_log_with_owners_and_folded_tracebacks(dsh, model):
    model([Reply.text("ok")])
    (dsh.workspace / "log.yml").write_text(CONSOLE)
    (dsh.workspace / "noisy.py").write_text(NOISY_PLUGIN)
    done = dsh.run("--patch", "log.yml", "headless", "go")
    assert (done.code, done.stdout) == (0, "ok\n")
    stamp = re.compile(r"\d\d:\d\d:\d\d\.\d{3} ")
    lines = [line.rstrip() for line in done.stderr.splitlines() if stamp.match(line)]
    assert [stamp.sub("", line) for line in lines] == [
        "DEBUG    noisy dsh.noisy it works",
        "ERROR    noisy dsh.noisy it went wrong",
    ]
    assert "LookupError: no such thing" in done.stderr
    assert "dsh: error" not in done.stderr, "the plain handler has stepped back"
    assert "\x1b" not in done.stderr, "a pipe has no colours"
    assert max(map(len, done.stderr.splitlines())) <= 100
