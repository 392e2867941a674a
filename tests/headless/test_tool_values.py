"""Arguments as models write them, and output that is not text."""

from __future__ import annotations

import json
import sys

import pytest
from dsh_llm_mock_server import Reply

CAP = 64_000


def bash(command: str) -> dict[str, str]:
    return {"command": command, "description": "d"}


def test_values_wrapped_once_too_often_are_unwrapped_where_nothing_is_lost(dsh, model):
    (dsh.workspace / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 41)))
    todos = json.dumps([{"content": "a", "status": "pending"}])
    server = model(
        [
            Reply.call("todo_write", {"todos": todos}, id="c1"),
            Reply.call("read", {"file_path": "a.txt", "limit": "20"}, id="c2"),
            Reply.call("read", {"file_path": "a.txt", "limit": True}, id="c3"),
            Reply.call("read", {"file_path": "a.txt", "limit": "2.5"}, id="c4"),
            Reply.call("read", {"file_path": ["a.txt"]}, id="c5"),
            Reply.call("read", {"path": "a.txt"}, id="c6"),
            Reply.text("ok"),
        ]
    )
    done = dsh.headless("go")
    results = {line["callId"]: line for line in done.of("tool_result")}
    assert [results[f"c{n}"]["status"] for n in range(1, 7)] == [
        "completed",
        "completed",
        "error",
        "error",
        "error",
        "error",
    ]
    assert "20: 20" in results["c2"]["result"]
    assert "21: 21" not in results["c2"]["result"]
    for part in ("limit", "integer", "true"):
        assert part in results["c3"]["result"]
    assert "path" in results["c6"]["result"]
    # The log keeps what the model sent.
    calls = {line["callId"]: line["input"] for line in done.of("tool_call")}
    assert calls["c2"]["limit"] == "20"
    assert server.refusals == []


def test_bytes_that_are_not_text_become_readable_text(dsh, model):
    commands = [
        r"printf 'a\0b'",
        "head -c 400 /bin/ls",
        r"printf 'caf\xe9\n'",
        *(f"{sys.executable} -c \"print('x'*({CAP}-{k}) + '\U0001f600'*50)\"" for k in range(4)),
    ]
    server = model([*(Reply.call("bash", bash(command)) for command in commands), Reply.text("ok")])
    done = dsh.headless("go")
    assert done.code == 0
    texts = [line["result"] for line in done.of("tool_result")]
    assert texts[0].startswith("a")
    assert texts[0].endswith("b")
    assert "caf\ufffd" in texts[2]
    assert all("\0" not in text for text in texts)
    for text in texts[3:]:
        assert "\ufffd" not in text
        assert text.count("\U0001f600") == 50
    model([Reply.text("again")])
    assert dsh.headless("--session-id", done.session_id, "go").code == 0
    assert server.refusals == []


@pytest.mark.parametrize("command", ["yes", "yes | tr -d '\\n'"])
def test_output_without_end_stops_at_the_timeout_with_a_bounded_tail(dsh, model, command):
    model(
        [
            Reply.call("bash", {**bash(command), "timeoutMs": 1000}, id="c1"),
            Reply.text("ok"),
        ]
    )
    done = dsh.headless("go")
    assert done.code == 0
    result = done.of("tool_result")[0]["result"]
    assert "[timed out after 1000ms]" in result
    assert len(result.encode()) < CAP + 1000


def test_a_command_may_leave_something_running_and_the_next_is_undisturbed(dsh, model):
    marker = "dsh-test-ticker"
    background = f"(exec -a {marker} sleep 60) & sleep 0.1; echo front-done"
    model(
        [
            Reply.call("bash", bash(background), id="c1"),
            Reply.call("bash", bash("echo next"), id="c2"),
            Reply.text("ok"),
        ]
    )
    done = dsh.headless("go")
    first, second = (line["result"] for line in done.of("tool_result"))
    assert first.startswith("front-done")
    assert "still running" in first
    assert "exit code" not in first
    assert second.strip() == "next"
    assert not _alive(marker)


def _alive(marker: str) -> bool:
    import subprocess

    return subprocess.run(["pgrep", "-f", f"^{marker}"], capture_output=True).returncode == 0


def test_the_files_of_others_keep_their_bytes(dsh, model):
    crlf = b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n"
    (dsh.workspace / "dos.txt").write_bytes(crlf)
    script = dsh.workspace / "run.sh"
    script.write_text("echo X\n")
    script.chmod(0o755)
    (dsh.workspace / "real.conf").write_text("X=1\n")
    (dsh.workspace / "conf").symlink_to("real.conf")

    def edit(path: str, old: str, new: str) -> Reply:
        arguments = {"file_path": path, "old_string": old, "new_string": new}
        return Reply.call("read", {"file_path": path}).call("edit", arguments)

    model(
        [
            edit("dos.txt", "two", "2"),
            edit("run.sh", "X", r"\1 $& {0} %s"),
            edit("conf", "X=1", "X=2"),
            Reply.text("ok"),
        ]
    )
    done = dsh.headless("go")
    assert [line["status"] for line in done.of("tool_result")] == ["completed"] * 6
    assert (dsh.workspace / "dos.txt").read_bytes() == crlf.replace(b"two", b"2")
    assert script.read_text() == r"echo \1 $& {0} %s" + "\n"
    assert script.stat().st_mode & 0o777 == 0o755
    assert (dsh.workspace / "conf").is_symlink()
    assert (dsh.workspace / "real.conf").read_text() == "X=2\n"


def test_a_file_must_be_read_before_it_is_changed(dsh, model):
    (dsh.workspace / "a.txt").write_text("one\n")
    model(
        [
            Reply.call("write", {"file_path": "a.txt", "content": "two"}),
            Reply.call("edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"}),
            Reply.text("ok"),
        ]
    )
    done = dsh.headless("go")
    assert [line["status"] for line in done.of("tool_result")] == ["error", "error"]
    assert all("read it" in line["result"] for line in done.of("tool_result"))
    assert (dsh.workspace / "a.txt").read_text() == "one\n"
