"""Runs of the real composition: every row of the profile, a model over HTTP, real files."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest
from dsh_app_boot import BootError, compose, create_profile, dump_rows
from dsh_cordis_loader import scan_entry_points
from dsh_llm_mock_server import Reply

pytestmark = pytest.mark.anyio


async def test_a_run_prints_the_answer_stores_one_session_and_leaves_nothing(harness, serve):
    server = serve([Reply.text("answer")])
    code, out, err = await harness.run("run", "the", "tests")
    assert (code, out) == (0, "answer\n")
    assert err.splitlines() == ["dsh: no sandbox: commands and file changes have your own rights"]
    assert server.requests[0].messages[-1] == {"role": "user", "content": "run the tests"}
    assert len(harness.sessions()) == 1


async def test_a_turn_with_tools_leaves_no_process_and_no_descriptor(harness, serve):
    serve(
        [
            Reply.call("bash", {"command": "sleep 0.01; echo hi > f", "description": "d"}).call(
                "bash", {"command": "cat f", "description": "d"}
            ),
            Reply.text("done"),
        ]
    )
    lines = await harness.lines("go")
    assert [line["result"] for line in lines if line["type"] == "tool_result"][-1] == "hi\n"
    assert harness.codes == [0]


async def test_a_failed_turn_prints_no_answer_and_its_code(harness, serve):
    serve([Reply.status(400)])
    code, out, err = await harness.run("go")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].startswith("dsh: ")


async def test_the_words_of_an_earlier_turn_stand_if_the_last_says_nothing(harness, serve):
    harness.plugin(
        """
        from dsh_agent import AGENTS
        from dsh_llm import create_user_message
        from dsh_session import SESSION_EVENT, TURN_END

        inject = (AGENTS,)

        def apply(ctx, config):
            def once_more(appended):
                if TURN_END.of(appended.event) and appended.event.data.turn == 1:
                    ctx[AGENTS].list()[0].followup(create_user_message("and?"))
            ctx.on(SESSION_EVENT, once_more, unscoped=True)
        """
    )
    serve([Reply.text("the answer"), Reply.finish("stop")])
    assert (await harness.run("go"))[:2] == (0, "the answer\n")


async def test_a_task_that_a_plugin_refuses_ends_as_blocked(harness, serve):
    harness.plugin(
        """
        from dsh_agent import AGENT_PRE_STEP, Reject

        def apply(ctx, config):
            async def refuse(step, go_on):
                return Reject()
            ctx.on(AGENT_PRE_STEP, refuse, unscoped=True)
        """
    )
    server = serve([])
    code, out, err = await harness.run("go")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == "dsh: BLOCKED: a plugin refused the task"
    assert server.requests == []


async def test_a_tree_unloaded_before_it_has_settled_starts_nothing_and_asks_no_exit(
    harness, serve
):
    harness.plugin(
        """
        import asyncio

        from dsh_agent import AGENTS

        inject = (AGENTS,)

        async def apply(ctx, config):
            # The runner is waiting for this row by now.
            asyncio.get_running_loop().call_soon(ctx.root.fiber.dispose)
            await asyncio.sleep(0)
        """
    )
    server = serve([Reply.text("never")])
    async with harness.booting("--json", "go") as (root, _ended):
        await harness.boot(root)
        await root.fiber.dispose()
    out, err = harness.capture.readouterr()
    assert (harness.codes, out, err) == ([], b"", b"")
    assert server.requests == []
    assert harness.sessions() == []


async def test_unloading_during_a_turn_closes_it_in_the_log_and_in_the_output(harness, serve):
    server = serve([Reply.text("half").stall(None)])
    async with harness.booting("--json", "go") as (root, ended):
        await harness.boot(root)
        while not server.requests:
            await _turn_of_the_loop()
        await root.fiber.dispose()
        assert ended.is_set()
    code, out, err = harness.printed()
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert [line["reason"]["kind"] for line in lines if line.get("phase") == "turn_end"] == [
        "aborted"
    ]
    assert lines[-2:] == [
        {
            "type": "error",
            "code": "ABORTED",
            "message": "the turn was stopped before it finished",
        },
        {"type": "final", "text": ""},
    ]
    assert err.splitlines()[-1] == "dsh: ABORTED: the turn was stopped before it finished"


async def test_a_session_that_cannot_be_stored_is_never_announced(harness, serve):
    serve([Reply.text("answer")])
    harness.plugin(
        """
        from pathlib import Path

        from dsh_agent import AGENT_SESSION_START
        from dsh_home_paths import HOME_PATH

        inject = (HOME_PATH,)

        def apply(ctx, config):
            # A file where the directory of this workspace's sessions belongs.
            slug = "--" + str(Path.cwd()).strip("/").replace("/", "-") + "--"
            Path(ctx[HOME_PATH]("sessions")).mkdir(exist_ok=True)
            Path(ctx[HOME_PATH]("sessions", slug)).write_text("in the way")
        """
    )
    lines = await harness.lines("go")
    assert harness.codes == [1]
    assert [line["type"] for line in lines] == ["error", "final"]


async def test_an_interrupted_session_goes_on_without_the_lines_of_its_repair(harness, serve):
    server = serve([Reply.text("half").stall(None)])
    async with harness.booting("--json", "first") as (root, _ended):
        await harness.boot(root)
        while not server.requests:
            await _turn_of_the_loop()
        await root.fiber.dispose()
    _code, out, _err = harness.printed()
    session_id = json.loads(out.splitlines()[0])["sessionId"]
    serve([Reply.text("on we go")])
    lines = await harness.lines("--session-id", session_id, "second")
    assert lines[0] == {
        "type": "session",
        "sessionId": session_id,
        "cwd": str(harness.workspace),
    }
    assert lines[1] == {"type": "status", "phase": "turn_start", "turn": 2}
    assert lines[-1] == {"type": "final", "text": "on we go"}


async def test_a_resumed_session_keeps_the_effort_that_it_was_given(harness, serve):
    server = serve([Reply.text("a"), Reply.text("b")])
    harness.plugin(
        """
        import msgspec
        from dsh_agent import AGENT_REQUEST

        def apply(ctx, config):
            async def harder(step, go_on):
                return msgspec.structs.replace(await go_on(), reasoning_effort="max")
            ctx.on(AGENT_REQUEST, harder, unscoped=True)
        """
    )
    first = await harness.lines("x")
    harness.patches.clear()
    await harness.lines("--session-id", first[0]["sessionId"], "y")
    efforts = [request.body.get("reasoning_effort") for request in server.requests]
    assert efforts == ["max", "max"]


@pytest.mark.parametrize("model", ["deepseek-official/", "/deepseek-v4-pro", "/"])
async def test_a_model_without_a_name_is_refused(harness, serve, model):
    server = serve([])
    code, _out, err = await harness.run("--model", model, "x")
    assert code == 1
    assert err.startswith("dsh: INVALID_MODEL: ")
    assert server.requests == []


async def test_a_model_name_may_hold_slashes(harness, serve):
    server = serve([Reply.text("a")])
    await harness.run("--model", "org/name/v1", "x")
    assert server.requests[0].body["model"] == "org/name/v1"


async def test_a_default_model_without_a_route_is_named(harness, serve):
    serve([])
    harness.patch("- {id: agent-default-model, config: {provider: elsewhere, model: m}}\n")
    code, _out, err = await harness.run("x")
    assert code == 1
    assert "elsewhere" in err
    assert harness.sessions() == []


async def test_a_failing_row_of_the_user_is_the_only_complaint(harness, serve):
    harness.plugin("def apply(ctx, config):\n    raise ValueError('boom')\n")
    server = serve([])
    with pytest.raises(BootError, match="boom"):
        async with harness.booting("go") as (root, _ended):
            await harness.boot(root)
    out, err = harness.capture.readouterr()
    assert (out, err, server.requests) == (b"", b"", [])


async def test_the_whole_prompt_is_the_one_on_file(harness, serve):
    server = serve([Reply.text("ok")])
    await harness.run("--model", "some-model", "x")
    prompt = server.requests[0].messages[0]["content"]
    expected = Path(__file__).with_name("prompt.txt").read_text()
    assert prompt + "\n" == expected.format(cwd=harness.workspace, platform=sys.platform)


async def _turn_of_the_loop() -> None:
    await asyncio.sleep(0.01)


def test_a_run_reloads_no_plugins_and_can_be_told_to(harness):
    points = scan_entry_points()
    profile = create_profile("h", "headless", home=harness.home, entry_points=points)
    rows = {row.id: row for row in compose(profile, home=harness.home, entry_points=points).rows}
    assert rows["hmr"].disabled is True
    profile.patch_file.write_text("- {id: hmr, disabled: false}\n")
    rows = {row.id: row for row in compose(profile, home=harness.home, entry_points=points).rows}
    assert rows["hmr"].disabled is False


def test_the_composition_has_no_row_of_a_server_or_a_browser(harness):
    points = scan_entry_points()
    profile = create_profile("mine", "headless", home=harness.home, entry_points=points)
    composition = compose(profile, home=harness.home, entry_points=points)
    dump = dump_rows(composition.rows)
    assert composition.skipped == ()
    assert "# == dsh-base, patched by dsh-headless\n- id: system-prompt\n" in dump
    assert "name: dsh-headless/startup\n" in dump
    assert not re.search(r"dsh-(host|client|web)-", dump)
