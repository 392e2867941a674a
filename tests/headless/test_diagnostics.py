"""What people mount to look inside a run: checks of promises, and a log to read."""

from __future__ import annotations

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
