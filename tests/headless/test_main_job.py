"""One task from its words to its answer."""

from __future__ import annotations

import json

from dsh_llm_mock_server import Reply

NO_SANDBOX = "dsh: no sandbox: commands and file changes have your own rights\n"


def test_words_become_a_task_and_the_answer_is_all_of_stdout(dsh, model):
    server = model([Reply.text("The answer.")])
    done = dsh.run("headless", "run", "the", "tests")
    assert (done.code, done.stdout, done.stderr) == (0, "The answer.\n", NO_SANDBOX)
    users = [m for m in server.requests[0].messages if m["role"] == "user"]
    assert users[-1]["content"] == "run the tests"
    assert len(dsh.sessions()) == 1


def test_a_task_looks_edits_tests_and_answers(dsh, model):
    (dsh.workspace / "greet.py").write_text('def greet():\n    return "helo"\n')
    check = "python3 -c 'import greet; assert greet.greet() == \"hello\"'"
    model(
        [
            Reply.think("look").call("bash", {"command": "ls", "description": "list"}),
            Reply.call("read", {"file_path": "greet.py"}),
            Reply.call(
                "edit", {"file_path": "greet.py", "old_string": "helo", "new_string": "hello"}
            ),
            Reply.call("bash", {"command": check, "description": "check"}),
            Reply.text("Fixed."),
        ]
    )
    done = dsh.headless("fix the greeting")
    assert done.code == 0
    assert 'return "hello"' in (dsh.workspace / "greet.py").read_text()
    assert [line["tool"] for line in done.of("tool_call")] == ["bash", "read", "edit", "bash"]
    assert [line["status"] for line in done.of("tool_result")] == ["completed"] * 4
    assert done.lines[-1] == {"type": "final", "text": "Fixed."}


def test_json_lines_tell_the_run_in_order(dsh, model):
    model(
        [
            Reply.think("hm")
            .text("I look.")
            .call("bash", {"command": "echo hi", "description": "d"}, id="c1"),
            Reply.text("Done."),
        ]
    )
    done = dsh.headless("go")
    kinds = [line["phase"] if line["type"] == "status" else line["type"] for line in done.lines]
    assert kinds == [
        "session",
        "turn_start",
        "step_start",
        "reasoning",
        "text",
        "tool_call",
        "tool_result",
        "step_end",
        "step_start",
        "text",
        "step_end",
        "turn_end",
        "final",
    ]
    assert done.lines[0]["cwd"] == str(dsh.workspace)
    assert done.of("tool_call")[0] == {
        "type": "tool_call",
        "callId": "c1",
        "tool": "bash",
        "input": {"command": "echo hi", "description": "d"},
    }
    assert done.of("tool_result")[0]["result"].strip() == "hi"
    assert done.of("status")[-1]["reason"] == {"kind": "completed"}
    usage = done.of("status")[2]["usage"]
    known = ("inputTokens", "cacheReadTokens", "outputTokens")
    assert usage["totalTokens"] == sum(usage.get(part, 0) for part in known)


def test_a_finished_session_goes_on_where_it_ended(dsh, model):
    model([Reply.text("One.")])
    first = dsh.headless("first")
    server = model([Reply.text("Two.")])
    elsewhere = dsh.workspace.parent / "elsewhere"
    elsewhere.mkdir()
    dsh.workspace, original = elsewhere, dsh.workspace
    second = dsh.headless("--session-id", first.session_id, "second")
    assert (second.code, second.session_id) == (0, first.session_id)
    assert second.lines[0]["cwd"] == str(original)
    said = [(m["role"], m["content"]) for m in server.requests[0].messages if m["role"] != "system"]
    assert said[0] == ("user", "first")
    assert ("assistant", "One.") in said
    assert said[-1] == ("user", "second")
    assert second.of("status")[0] == {"type": "status", "phase": "turn_start", "turn": 2}


def test_an_unknown_session_is_refused_and_nothing_is_created(dsh, model):
    server = model([])
    done = dsh.headless("--session-id", "nosuch", "go")
    assert done.code == 1
    assert done.lines[0]["code"] == "SESSION_NOT_FOUND"
    assert done.lines[-1] == {"type": "final", "text": ""}
    assert "dsh: SESSION_NOT_FOUND: " in done.stderr
    assert server.requests == []
    assert dsh.sessions() == []


def test_a_model_can_be_named_with_and_without_its_provider(dsh, model):
    server = model([Reply.text("a"), Reply.text("b")])
    dsh.run("headless", "--model", "deepseek-v4-pro", "x")
    dsh.run("headless", "--model", "deepseek-official/other", "x")
    assert [r.body["model"] for r in server.requests] == ["deepseek-v4-pro", "other"]


def test_a_resumed_session_keeps_its_model_unless_another_is_named(dsh, model):
    server = model([Reply.text("a"), Reply.text("b"), Reply.text("c")])
    first = dsh.headless("--model", "deepseek-v4-pro", "x")
    dsh.headless("--session-id", first.session_id, "y")
    dsh.headless("--session-id", first.session_id, "--model", "third", "z")
    assert [r.body["model"] for r in server.requests] == [
        "deepseek-v4-pro",
        "deepseek-v4-pro",
        "third",
    ]


def test_the_prompt_names_model_directory_and_tools(dsh, model):
    server = model([Reply.text("ok")])
    dsh.run("headless", "x")
    body = server.requests[0].body
    system = body["messages"][0]["content"]
    assert body["messages"][0]["role"] == "system"
    assert "deepseek-v4-flash" in system
    assert str(dsh.workspace) in system
    assert sorted(t["function"]["name"] for t in body["tools"]) == [
        "bash",
        "edit",
        "read",
        "todo_write",
        "write",
    ]
    assert "test-key" not in json.dumps(body)


def test_no_identity_travels_with_a_request(dsh, model):
    server = model([Reply.text("ok")])
    dsh.run("headless", "x")
    headers = {name.lower(): value for name, value in server.requests[0].headers.items()}
    assert headers["user-agent"].startswith("dsh/")
    assert not [name for name in headers if name.startswith("x-")]


def test_the_collector_works_again_once_the_application_stands(dsh, model):
    (dsh.workspace / "look.py").write_text(
        "import gc\n"
        "from dsh_tools import TOOLS, tool\n"
        "inject = (TOOLS,)\n"
        "@tool\n"
        "async def collector() -> list[bool]:\n"
        '    """Look at the collector."""\n'
        "    return [gc.isenabled(), gc.get_freeze_count() > 0]\n"
        "def apply(ctx, config):\n"
        "    ctx[TOOLS].register(collector)\n"
    )
    (dsh.workspace / "look.yml").write_text("- insert: [{id: look, name: ./look.py}]\n")
    model([Reply.call("collector", {}), Reply.text("ok")])
    done = dsh.run("--patch", "look.yml", "headless", "--json", "x")
    assert json.loads(done.of("tool_result")[0]["result"]) == [True, True]


def test_hooks_for_the_exit_of_the_process_run(dsh, model):
    (dsh.workspace / "hook.py").write_text(
        "import atexit, pathlib\n"
        "def apply(ctx, config):\n"
        "    atexit.register(pathlib.Path('left').touch)\n"
    )
    (dsh.workspace / "hook.yml").write_text("- insert: [{id: hook, name: ./hook.py}]\n")
    model([Reply.text("ok")])
    assert dsh.run("--patch", "hook.yml", "headless", "x").code == 0
    assert (dsh.workspace / "left").exists()
