"""What models and gateways really send; the strict server refuses any poisoned history."""

from __future__ import annotations

from dsh_llm_mock_server import Reply


def bash(command: str) -> dict[str, str]:
    return {"command": command, "description": "d"}


def results(body) -> dict[str, str]:
    return {m["tool_call_id"]: m["content"] for m in body["messages"] if m["role"] == "tool"}


def test_arguments_that_are_not_json_are_answered_and_stay_in_the_log(dsh, model):
    server = model(
        [
            Reply.call("bash", '{"command": "touch ran', id="c1"),
            Reply.call("bash", 'command": "touch ran"}', id="c2"),
            Reply.text("done"),
        ]
    )
    done = dsh.headless("go")
    assert (done.code, done.lines[-1]["text"]) == (0, "done")
    assert [line["status"] for line in done.of("tool_result")] == ["error", "error"]
    assert '{"command": "touch ran' in done.of("tool_result")[0]["result"]
    assert done.of("tool_call")[0]["input"] == '{"command": "touch ran'
    assert not (dsh.workspace / "ran").exists()
    model([Reply.text("still fine")])
    resumed = dsh.headless("--session-id", done.session_id, "again")
    assert resumed.code == 0
    assert server.refusals == []


def test_unknown_tools_and_empty_names_are_answered(dsh, model):
    server = model(
        [
            Reply.call("no_such_tool", {}, id="c1").call("bash", "", id="c2"),
            Reply.call("bad name!", {"a": 1}, id="c3"),
            Reply.text("done"),
        ]
    )
    done = dsh.headless("go")
    assert done.code == 0
    assert [line["status"] for line in done.of("tool_result")] == ["error"] * 3
    assert "no_such_tool" in done.of("tool_result")[0]["result"]
    assert server.refusals == []


def test_reasoning_goes_back_byte_for_byte_also_after_a_resume(dsh, model):
    thought = "Â  think…\n\n  with  spaces "
    server = model(
        [
            Reply.think(thought).call("bash", bash("true"), id="c1"),
            Reply.call("bash", bash("true"), id="c2"),
            Reply.think("B").text("ok"),
        ]
    )
    first = dsh.headless("go")
    assert first.code == 0
    later = model([Reply.text("two"), Reply.text("three")])
    assert dsh.headless("--session-id", first.session_id, "second").code == 0
    assert dsh.headless("--session-id", first.session_id, "third").code == 0
    for request in (server.requests[-1], *later.requests):
        said = [m for m in request.messages if m["role"] == "assistant"]
        assert said[0]["reasoning_content"] == thought
        assert said[1]["reasoning_content"] == ""
    assert server.refusals == later.refusals == []


def test_thinking_can_be_off_and_on_again_over_one_session(dsh, model, tmp_path):
    off = tmp_path / "off.yml"
    off.write_text(
        "- id: llm-deepseek\n"
        "  config:\n"
        "    baseURL: !expr \"env.get('DEEPSEEK_BASE_URL')\"\n"
        "    thinking: disabled\n"
    )
    server = model([Reply.think("A").text("one"), Reply.text("two"), Reply.text("three")])
    first = dsh.headless("go")
    again = ("--session-id", first.session_id, "again")
    assert dsh.run("--patch", str(off), "headless", "--json", *again).code == 0
    assert dsh.headless(*again).code == 0
    thinking = [request.body["thinking"]["type"] for request in server.requests]
    assert thinking == ["enabled", "disabled", "enabled"]
    assert server.refusals == []


def test_two_calls_on_one_index_or_on_none_are_two_calls(dsh, model):
    for index in (0, None):
        server = model(
            [
                Reply.call("bash", bash("echo a"), id="c1", index=index).call(
                    "bash", bash("echo b"), id="c2", index=index
                ),
                Reply.text("ok"),
            ]
        )
        done = dsh.headless("go")
        assert done.code == 0
        answers = results(server.requests[1].body)
        assert {key: value.strip() for key, value in answers.items()} == {"c1": "a", "c2": "b"}


def test_missing_and_repeated_call_ids_get_unique_ones(dsh, model):
    server = model(
        [
            Reply.call("bash", bash("echo a"), id=None).call("bash", bash("echo b"), id=""),
            Reply.call("bash", bash("echo c"), id="same").call("bash", bash("echo d"), id="same"),
            Reply.text("ok"),
        ]
    )
    done = dsh.headless("go")
    assert done.code == 0
    assert sorted(v.strip() for v in results(server.requests[-1].body).values()) == list("abcd")
    assert server.refusals == []


def test_calls_run_although_the_reply_says_stop(dsh, model):
    server = model(
        [
            Reply.text("I look").call("bash", bash("echo seen"), id="c1").finish("stop"),
            Reply.text("seen").finish("stop"),
        ]
    )
    done = dsh.run("headless", "go")
    assert done.stdout == "seen\n"
    assert results(server.requests[1].body)["c1"].strip() == "seen"


def test_empty_chunks_null_parts_and_vendor_extras_are_nothing(dsh, model):
    end = '{"choices":[{"index":0,"delta":{"content":null,"role":null},"finish_reason":"stop"}]}'
    usage = '{"prompt_tokens":10,"completion_tokens":null,"prompt_tokens_details":null}'
    model(
        [
            Reply.comment()
            .raw('{"choices":[]}')
            .text("he")
            .raw("null")
            .raw('{"choices":null,"usage":null}')
            .raw('{"choices":[{"index":0,"delta":null,"finish_reason":null}]}')
            .text("llo")
            .raw(end)
            .raw(f'{{"choices":[],"usage":{usage}}}')
            .raw('{"choices":[],"usage":null,"x_vendor":{"a":[1]}}')
            .finish(None)
        ]
    )
    done = dsh.headless("go")
    assert (done.code, done.lines[-1]["text"]) == (0, "hello")
    step_end = next(line for line in done.of("status") if line["phase"] == "step_end")
    assert step_end["usage"] == {"inputTokens": 10, "totalTokens": 10}


def test_text_that_strict_json_refuses_is_repaired_at_the_door(dsh, model):
    raw = '{"choices":[{"index":0,"delta":{"content":"a\\u0000b\\ud800c"},"finish_reason":null}]}'
    server = model([Reply.raw(raw), Reply.text("fine")])
    first = dsh.headless("go")
    assert first.code == 0
    text = first.lines[-1]["text"]
    assert text.startswith("a")
    assert text.endswith("c")
    assert "\0" not in text
    assert dsh.headless("--session-id", first.session_id, "again").code == 0
    assert server.refusals == []


def test_an_error_inside_a_200_stream_is_its_failure(dsh, model):
    model([Reply.text("half").raw('{"error":{"message":"overloaded","code":"invalid_request"}}')])
    done = dsh.headless("go")
    assert done.code == 1
    assert "overloaded" in done.of("error")[0]["message"]
    assert done.lines[-1]["text"] == ""
