"""What the model asks and reads."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import dsh_tool_bash
import pytest
from dsh_bash_local import BashLocal
from dsh_cordis import AbortController, ConfigError, Context
from dsh_lossless_json import thaw
from dsh_shell import parse_exit_status
from dsh_system_prompt import SYSTEM_PROMPT, AssembleContext, render_prompt
from dsh_tools import TOOLS, ToolCallRequest

pytestmark = pytest.mark.anyio

DESCRIPTION = (
    "Run a bash command and wait for it. Each call is a fresh shell without a terminal: no "
    "directory, variable or function survives, and a program that asks for input gets end of "
    "file. Set `workdir` instead of using cd. What you start with `&` may go on after the call; "
    "send its output to a file, later output is dropped. The text ends with `[exit code: N]` "
    "unless N is 0, or with `[killed by signal: S]`; `[timed out after Nms]` may stand before it. "
    "Of long output only the end is shown, and a line names the file that has all of it. "
    "`$DSH_HOME` is the harness's own directory, `$DSH_SESSION_ID` names this session."
)
GUIDANCE = (
    "After each bash command look at its last line: without an exit marker it succeeded. Find out "
    "why a command failed before trying another."
)
PARAMETERS = {
    "type": "object",
    "properties": {
        "command": {"description": "The bash command.", "type": "string", "minLength": 1},
        "description": {
            "description": "What it does, in 5 to 10 words, for a person.",
            "type": "string",
        },
        "timeoutMs": {
            "description": "Time limit in milliseconds; 120000 if absent, at most 600000.",
            "type": "number",
            "exclusiveMinimum": 0,
        },
        "workdir": {
            "description": "Directory to run in, relative to the session's.",
            "type": "string",
        },
    },
    "required": ["command", "description"],
    "additionalProperties": False,
}


async def prompt(root: Context) -> str:
    context = AssembleContext(scope=None, signal=AbortController().signal, agent=None)
    return render_prompt(await root[SYSTEM_PROMPT].assemble(context))


async def test_the_model_sees_exactly_this(root: Context) -> None:
    (schema,) = root[TOOLS].schemas(None)
    assert (schema.name, schema.description) == ("bash", DESCRIPTION)
    assert thaw(schema.parameters) == PARAMETERS
    assert GUIDANCE in await prompt(root)


async def test_the_schema_states_the_limits_of_the_shell_in_use(below: Context) -> None:
    await below.plugin(BashLocal, {"timeoutMs": 60_000, "maxTimeoutMs": 90_000})
    await below.plugin(dsh_tool_bash)
    (schema,) = below[TOOLS].schemas(None)
    parameters: Any = thaw(schema.parameters)
    limit = parameters["properties"]["timeoutMs"]["description"]
    assert limit == "Time limit in milliseconds; 60000 if absent, at most 90000."


async def test_the_plugin_takes_everything_back(below: Context) -> None:
    await below.plugin(BashLocal)
    for _ in range(2):
        fiber = await below.plugin(dsh_tool_bash)
        assert len(below[TOOLS].schemas(None)) == 1
        await fiber.dispose()
        assert below[TOOLS].schemas(None) == ()
        assert GUIDANCE not in await prompt(below)


async def test_background_commands_are_not_on_offer(below: Context) -> None:
    await below.plugin(BashLocal)
    with pytest.raises(ConfigError, match="enableRunInBackground"):
        await below.plugin(dsh_tool_bash, {"enableRunInBackground": True})
    await below.plugin(dsh_tool_bash, {"enableRunInBackground": False})


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("printf hi", "hi"),
        ("echo hi", "hi\n"),
        ("true", "(no output)"),
        ("exit 3", "(no output)\n[exit code: 3]"),
        ("echo out; exit 3", "out\n[exit code: 3]"),
        ("printf out; exit 3", "out\n[exit code: 3]"),
        ("echo err >&2", "[stderr]\nerr\n"),
        ("echo out; echo err >&2; false", "out\n[stderr]\nerr\n[exit code: 1]"),
        ("printf out; printf err >&2", "out\n[stderr]\nerr"),
        ("kill -KILL $$", "(no output)\n[killed by signal: SIGKILL]"),
        ("echo; exit 4", "\n[exit code: 4]"),
        (r"printf 'a\0b'", "a\ufffdb"),
    ],
)
async def test_the_text_of_a_command(call: Any, text: Any, command: str, expected: str) -> None:
    outcome = await call(command)
    assert not outcome.is_error
    assert text(outcome) == expected


async def test_the_value_has_every_fact(call: Any) -> None:
    outcome = await call("echo out; echo err >&2; exit 3", timeoutMs=5000)
    assert thaw(outcome.value) == {
        "kind": "foreground",
        "exitCode": 3,
        "signal": None,
        "timedOut": False,
        "aborted": False,
        "timeoutMs": 5000,
        "stdout": {"text": "out\n", "truncated": False, "spillPath": None},
        "stderr": {"text": "err\n", "truncated": False, "spillPath": None},
        "leftRunning": False,
    }


async def test_a_timeout_line_stands_before_the_signal(call: Any, text: Any) -> None:
    assert text(await call("sleep 300", timeoutMs=100)) == (
        "(no output)\n[timed out after 100ms]\n[killed by signal: SIGTERM]"
    )


async def test_a_timeout_that_ended_well_has_no_exit_marker(call: Any, text: Any) -> None:
    command = "exec 2>/dev/null; trap 'exit 0' TERM; while :; do sleep 0.01; done"
    assert text(await call(command, timeoutMs=1000)) == "(no output)\n[timed out after 1000ms]"


async def test_the_last_line_can_be_parsed(call: Any, text: Any) -> None:
    assert parse_exit_status(text(await call("echo x; exit 9"))).exit_code == 9
    assert parse_exit_status(text(await call("kill -TERM $$"))).signal == "SIGTERM"
    assert parse_exit_status(text(await call("echo x"))).exit_code == 0


async def test_what_was_left_running_is_said(call: Any, text: Any) -> None:
    outcome = await call("sleep 300 >/dev/null 2>&1 & echo front-done")
    assert text(outcome) == "front-done\n[still running: processes that this command started]"


async def test_long_output_names_the_file_that_has_all_of_it(call: Any, text: Any) -> None:
    got = text(await call("seq 100000; seq 100000 >&2; exit 1"))
    whole = "".join(f"{number}\n" for number in range(1, 100_001))
    match = re.search(
        r"\[output truncated; full output: (.+)\]\n\[stderr truncated; full output: (.+)\]\n"
        r"\[exit code: 1\]\Z",
        got,
    )
    assert match is not None
    assert [Path(path).read_text() for path in match.groups()] == [whole, whole]
    assert len(got) < 130_000


async def test_output_too_long_for_a_file_says_so(below: Context, text: Any) -> None:
    await below.plugin(BashLocal, {"maxOutputBytes": 5, "maxSpillBytes": 10})
    await below.plugin(dsh_tool_bash)
    request = ToolCallRequest(
        call_id="c",
        name="bash",
        arguments={"command": "seq 10", "description": "d"},
        signal=AbortController().signal,
    )
    outcome = await below[TOOLS].execute(request)
    assert text(outcome) == "9\n10\n[output truncated; full output: (unavailable)]"


async def test_directories_start_from_the_sessions(call: Any, text: Any, agent: Any) -> None:
    who = agent()
    session_cwd = Path(who.session.header.cwd)
    (session_cwd / "sub").mkdir()
    assert text(await call("pwd", who)) == f"{session_cwd}\n"
    assert text(await call("pwd", who, workdir="sub")) == f"{session_cwd}/sub\n"
    assert text(await call("pwd", who, workdir="/")) == "/\n"
    await call("cd sub", who)
    assert text(await call("pwd", who)) == f"{session_cwd}\n"


async def test_without_an_agent_directories_start_from_the_shells(
    call: Any, text: Any, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    assert text(await call("pwd", workdir="sub")) == f"{tmp_path}/sub\n"


async def test_agents_see_their_own_session(call: Any, text: Any, agent: Any) -> None:
    command = "echo $DSH_SHELL $DSH_SESSION_ID"
    assert text(await call(command, agent("parent"))) == "1 parent\n"
    assert text(await call(command, agent("child"))) == "1 child\n"
    assert text(await call(command)) == "1\n"


@pytest.mark.parametrize(
    "arguments",
    [
        {"timeoutMs": 0},
        {"timeoutMs": -5},
        {"stdin": "x"},
        {"env": {"A": "b"}},
        {"run_in_background": True},
        {"sandbox_permissions": "danger-full-access"},
    ],
)
async def test_arguments_that_are_not_on_offer_run_nothing(
    call: Any, text: Any, tmp_path: Path, arguments: dict[str, Any]
) -> None:
    outcome = await call("touch ran", **arguments)
    assert (outcome.is_error, outcome.error.code) == (True, "INVALID_ARGS")
    assert next(iter(arguments)) in text(outcome)
    assert list(tmp_path.iterdir()) == []


async def test_a_numeric_text_is_a_number_and_a_long_limit_is_cut(call: Any) -> None:
    assert (await call("true", timeoutMs="5000")).value["timeoutMs"] == 5000
    assert (await call("true", timeoutMs=1e9)).value["timeoutMs"] == 600_000


@pytest.mark.parametrize(
    ("command", "options", "code"),
    [
        ("true", {"workdir": "/nowhere"}, "SPAWN_FAILED"),
        ("true " + "x" * 3_000_000, {}, "SPAWN_FAILED"),
        ("  ", {}, "INVALID_SHELL_REQUEST"),
    ],
)
async def test_what_cannot_be_started_is_an_error(
    call: Any, command: str, options: dict[str, Any], code: str
) -> None:
    outcome = await call(command, **options)
    assert (outcome.is_error, outcome.error.code) == (True, code)


async def test_a_stopped_command_is_an_error_that_says_what_stays(
    call: Any, text: Any, tmp_path: Path
) -> None:
    controller = AbortController()
    pid = tmp_path / "pid"
    async with asyncio.TaskGroup() as group:
        running = group.create_task(call("echo $$ > pid; sleep 300", signal=controller.signal))
        async with asyncio.timeout(10):
            while not pid.exists() or not pid.read_text().endswith("\n"):
                await asyncio.sleep(0.005)
        controller.abort()
    outcome = running.result()
    assert (outcome.error.name, outcome.error.code) == ("ToolError", "TOOL_ABORTED")
    assert "stopped before it finished" in text(outcome)
    assert not Path("/proc", pid.read_text().strip()).exists()
