from __future__ import annotations

import json
import sys
from pathlib import Path

import dsh_fs_observation_policy
import dsh_tool_fs
import pytest
from dsh_agent_loop_testkit import Call, agent_kit, call_reply
from dsh_cordis import ConfigError, Context
from dsh_cordis_loader import (
    LOADER,
    Loader,
    LoaderOptions,
    parse_rows,
    read_yaml,
    scan_entry_points,
)
from dsh_fs_local import LocalFileSystem
from dsh_lossless_json import thaw
from dsh_session import TOOL_CALL, TOOL_RESULT, SessionMeta
from dsh_system_prompt import SYSTEM_PROMPT, AssembleContext
from dsh_tools import TOOLS, ToolCallRequest

pytestmark = pytest.mark.anyio
TOOL_NAMES = ["read", "write", "edit"]


async def assembled(ctx: Context):
    prompt = ctx.get(SYSTEM_PROMPT)
    assert prompt is not None
    return await prompt.assemble(AssembleContext())


async def test_what_the_model_is_told_is_what_was_reviewed(kit):
    assembly = await assembled(kit.ctx)
    told = {
        "sections": {s.name: s.text for s in assembly.sections if s.name.startswith("tool:")},
        "tools": [
            {"name": t.name, "description": t.description, "parameters": thaw(t.parameters)}
            for t in assembly.tools
        ],
    }
    reviewed = Path(__file__).with_name("told.json").read_text("utf-8")
    assert json.dumps(told, indent=2, ensure_ascii=False) + "\n" == reviewed


async def test_the_offered_limit_is_the_configured_one(mount):
    async with mount(readLimit=5) as kit:
        kit.file("a.txt", "x\n" * 9)
        definition = kit.ctx[TOOLS].get("read")
        limit = definition.schema.parameters["properties"]["limit"]
        assert (limit["maximum"], limit["default"]) == (5, 5)
        assert await kit.code("read", file_path="a.txt", limit=6) == "INVALID_ARGS"
        assert len((await kit.value("read", file_path="a.txt"))["lines"]) == 5


async def test_unloading_takes_tools_and_guidance_back(kit):
    assert [schema.name for schema in kit.ctx[TOOLS].schemas()] == TOOL_NAMES
    await kit.plugin.dispose()
    assert kit.ctx[TOOLS].schemas() == ()
    assembly = await assembled(kit.ctx)
    assert [s.name for s in assembly.sections if s.name.startswith("tool:")] == []


async def test_reads_may_overlap_and_changes_may_not(kit):
    def mode(name: str, **arguments: object) -> str:
        request = ToolCallRequest(
            call_id="c", name=name, arguments=arguments, signal=kit.abort.signal
        )
        return kit.ctx[TOOLS].execution_mode(request)

    edit = {"old_string": "a", "new_string": "b"}
    assert mode("read", file_path="a") == "parallel"
    assert mode("write", file_path="a", content="") == "exclusive"
    assert mode("edit", file_path="a", **edit) == "exclusive"


async def test_a_wrong_configuration_is_refused_by_name(mount):
    with pytest.raises(ConfigError, match="readLimit"):
        async with mount(readLimits=5):
            pass


ROWS = """
- {id: tool-fs, name: dsh-tool-fs, config: {readLimit: 100}}
- {id: policy, name: dsh-fs-observation-policy}
- {id: fs, name: dsh-fs-local, config: {diffBasisMaxBytes: 1000}}
- {id: tools, name: dsh-tools}
- {id: prompt, name: dsh-system-prompt}
"""


async def test_rows_in_any_order_make_working_tools(tmp_path):
    where = str(tmp_path)
    options = LoaderOptions(
        entry_points=scan_entry_points(sys.path), environment={}, home=where, cwd=where
    )
    async with Context() as root:
        await root.plugin(Loader, options)
        loader = root.get(LOADER)
        assert loader is not None
        value = read_yaml(ROWS, where="rows.yml")
        await loader.apply(parse_rows(value, where="rows.yml", base=where, origin="test"))
        tools = root.get(TOOLS)
        assert tools is not None
        assert [schema.name for schema in tools.schemas()] == TOOL_NAMES
        limit = tools.schemas()[0].parameters["properties"]["limit"]
        assert limit["maximum"] == 100


async def test_an_agent_reads_and_changes_files_and_its_log_holds_no_values(tmp_path):
    (tmp_path / "a.txt").write_text("one\n" + "filler\n" * 5000)
    read = {"file_path": "a.txt", "limit": 1}
    edit = {"file_path": "a.txt", "old_string": "one", "new_string": "two"}
    replies = [
        call_reply(Call("edit", edit, "c1")),
        call_reply(Call("read", read, "c2")),
        call_reply(Call("edit", edit, "c3")),
        "done",
    ]
    plugins = [LocalFileSystem, dsh_fs_observation_policy, dsh_tool_fs]
    meta = SessionMeta(cwd=str(tmp_path))
    async with agent_kit(replies, plugins=plugins, meta=meta) as kit:
        assert await kit.say("change it") == "done"
        codes = [getattr(result.error, "code", None) for result in kit.of(TOOL_RESULT)]
        assert codes == ["FS_NOT_OBSERVED", None, None]
        assert [call.call_id for call in kit.of(TOOL_CALL)] == ["c1", "c2", "c3"]
        logged = [event for event in kit.session.events if TOOL_RESULT.of(event)]
        # The edit's value holds the file twice, 35 kB each; the log holds the place that changed.
        assert all(len(event.raw) < 2000 for event in logged)
    assert (tmp_path / "a.txt").read_text().startswith("two\n")
