"""The rows that every profile stands on, booted as they are."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import dsh_base
import pytest
from dsh_agent import AGENTS, AgentOptions, CreateAgent
from dsh_agent_default_model import AGENT_DEFAULT_MODEL
from dsh_agent_loop_testkit import final_text
from dsh_app_boot import BootError
from dsh_cordis_hmr import HMR, HMR_RELOAD
from dsh_cordis_include import read_patch_file
from dsh_fs import FS
from dsh_llm import LLM, SessionId, create_user_message
from dsh_session import SESSIONS, SessionMeta
from dsh_shell import SHELL
from dsh_tools import TOOLS

pytestmark = pytest.mark.anyio

PATCH = Path(dsh_base.__file__).with_name("cordis.patch.yml")


async def answered(root, task: str = "go") -> str:
    """What an agent with the default model says to a task."""
    model = root[AGENT_DEFAULT_MODEL].current_selection()
    handle = await root[AGENTS].create(
        CreateAgent(
            session_id=SessionId("s"),
            agent_options=AgentOptions(provider=model.provider, model=model.model),
            meta=SessionMeta(cwd=str(Path.cwd())),
        )
    )
    handle.agent.followup(create_user_message(task))
    await handle.agent.when_idle()
    await root[SESSIONS].flush(handle.agent.session)
    return final_text(handle.agent.session)


async def test_it_boots_without_a_key_and_has_one_route(base) -> None:
    async with base.booted() as root:
        (route,) = root[LLM].list_providers()
        assert route.provider == "deepseek-official"
        assert root[AGENT_DEFAULT_MODEL].current_selection().provider == route.provider
        failure = root[LLM].readiness()
        assert failure is not None
        assert failure.code == "MISSING_CREDENTIAL"


async def test_a_boot_writes_nothing(base) -> None:
    def written() -> list[Path]:
        return sorted(base.home.parent.rglob("*"))

    before = written()
    async with base.booted():
        pass
    assert written() == before


async def test_an_agent_gets_the_tools_of_one_shell_and_one_file_system(base) -> None:
    async with base.booted() as root:
        names = {schema.name for schema in root[TOOLS].schemas(None)}
        assert names == {"bash", "edit", "read", "todo_write", "write"}
        assert root.get(SHELL) is not None
        assert root.get(FS) is not None


def test_every_row_is_an_installed_plugin_of_a_declared_dependency(base) -> None:
    rows = base.compose().rows
    plugins = base.points["dsh.plugins"]
    assert [row.name for row in rows if row.name not in plugins] == []
    assert len({row.id for row in rows}) == len(rows)
    declared = {line.partition("==")[0] for line in metadata.requires("dsh-base") or ()}
    assert {plugins[row.name].distribution for row in rows} == declared


def test_the_payload_is_one_insertion(base) -> None:
    assert len(read_patch_file(PATCH)) == 1
    assert base.compose().skipped == ()


SCRIPTED = """
    from dsh_agent_loop_testkit import ScriptedAdapter
    from dsh_llm import LLM

    inject = (LLM,)

    def apply(ctx, config):
        return ctx[LLM].register_adapter([config["route"]], ScriptedAdapter(["swapped"]))
"""


def swap_the_model(base) -> None:
    """Another provider instead of the bundle's, as a user's patch does it."""
    base.plugin("scripted.py", SCRIPTED)
    base.patch(
        """
        - {id: llm-deepseek, disabled: true}
        - {id: agent-default-model, config: {provider: other, model: m}}
        - insert: [{id: scripted, name: ./scripted.py, config: {route: other}}]
        """
    )


async def test_another_model_provider_takes_the_place_of_the_bundles(base) -> None:
    swap_the_model(base)
    async with base.booted() as root:
        assert [info.provider for info in root[LLM].list_providers()] == ["other"]
        assert await answered(root) == "swapped"


async def test_without_persistence_sessions_live_in_memory_alone(base) -> None:
    swap_the_model(base)
    base.patch(
        """
        - {id: session-persistence-jsonl, disabled: true}
        - {id: session-checkpoint-policy, disabled: true}
        """
    )
    async with base.booted() as root:
        assert await answered(root) == "swapped"
    assert not (base.home / "sessions").exists()


async def test_sessions_are_stored_below_the_home(base) -> None:
    swap_the_model(base)
    async with base.booted() as root:
        assert await answered(root) == "swapped"
    (stored,) = base.home.glob("sessions/*/*/session.jsonl.zstd")
    assert stored.parent.name == "s"


async def test_a_row_that_others_wait_for_cannot_just_be_left_out(base) -> None:
    base.patch("- {id: session-persistence-jsonl, disabled: true}\n")
    with pytest.raises(BootError, match=r"session-checkpoint-policy.*session_persistence"):
        async with base.booted():
            pass


async def test_a_bundle_without_files_and_shell_has_what_is_left(base) -> None:
    base.patch(
        """
        - {id: bash-local, disabled: true}
        - {id: tool-bash, disabled: true}
        - {id: tool-fs, disabled: true}
        """
    )
    async with base.booted() as root:
        assert {schema.name for schema in root[TOOLS].schemas(None)} == {"todo_write"}


async def test_plugins_of_the_user_are_reloaded_as_they_are_edited(base) -> None:
    base.plugin("note.py", "from pathlib import Path\napply = lambda ctx, c: print(1)\n")
    base.patch(
        """
        - {id: hmr, config: {debounceMs: 10}}
        - insert: [{id: note, name: ./note.py}]
        """
    )
    async with base.booted() as root:
        await root[HMR].ready()
        reloaded = asyncio.Event()
        rows: list[str] = []
        root.on(HMR_RELOAD, lambda change: (rows.extend(change.rows), reloaded.set())[1])
        base.plugin("note.py", "apply = lambda ctx, c: print(2)\n")
        async with asyncio.timeout(10):
            await reloaded.wait()
        assert rows == ["note"]


BOOT = """
import asyncio, sys
from pathlib import Path
from dsh_app_boot import boot, compose, open_profile
from dsh_cordis import Context
from dsh_cordis_loader import scan_entry_points
from dsh_launch_environment import LaunchEnvironment

async def main():
    home, points = Path(sys.argv[1]), scan_entry_points()
    profile = open_profile("bare", home=home, entry_points=points)
    rows = compose(profile, home=home, entry_points=points).rows
    async with Context() as root:
        await boot(root, rows, home=home, environment=LaunchEnvironment({}), entry_points=points)
        print(*sorted(sys.modules))

asyncio.run(main())
"""


def test_a_boot_imports_nothing_heavy(base) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BOOT, str(base.home)], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "dsh_tool_bash" in loaded
    assert (
        loaded
        & {
            "pydantic",
            "httpx",
            "rich",
            "click",
            "importlib_metadata",
            "ruamel",
            "watchfiles",
        }
        == set()
    )
    assert "importlib.metadata" not in done.stdout.split()
