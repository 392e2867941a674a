"""Which variables a command gets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from dsh_cordis import Context
from dsh_home_paths import HOME_PATH, HomePath
from dsh_session import SessionStore
from dsh_session_persistence_jsonl import JsonlSessionPersistence
from dsh_shell_env import SHELL_ENV, ShellEnv, ShellEnvError, VariableInfo

pytestmark = pytest.mark.anyio


async def test_a_command_without_an_agent_knows_the_home_only(
    root: Context, tmp_path: Path
) -> None:
    assert root[SHELL_ENV].collect(None) == {"DSH_HOME": str(tmp_path), "DSH_SHELL": "1"}


async def test_agents_have_their_own_session_ids(root: Context, agent: Any) -> None:
    env = root[SHELL_ENV]
    assert env.collect(agent("parent"))["DSH_SESSION_ID"] == "parent"
    assert env.collect(agent("child"))["DSH_SESSION_ID"] == "child"
    assert "DSH_SESSION_JSONL" not in env.collect(agent("parent"))


async def test_the_log_is_named_where_there_is_one(
    root: Context, agent: Any, tmp_path: Path
) -> None:
    await root.plugin(SessionStore)
    stored = await root.plugin(JsonlSessionPersistence, {"root": str(tmp_path / "sessions")})
    path = Path(root[SHELL_ENV].collect(agent("s1"))["DSH_SESSION_JSONL"])
    assert path.is_relative_to(tmp_path / "sessions")
    assert ".jsonl" in path.name
    assert not path.exists()
    await stored.dispose()
    assert "DSH_SESSION_JSONL" not in root[SHELL_ENV].collect(agent("s1"))


async def test_the_home_is_that_of_the_booted_harness(tmp_path: Path):
    async with Context() as root:
        root.provide(HOME_PATH, HomePath(tmp_path))
        await root.plugin(ShellEnv)
        assert root[SHELL_ENV].collect(None)["DSH_HOME"] == str(tmp_path)


async def test_the_home_is_the_environments_unless_configured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DSH_HOME", "/elsewhere")
    async with Context() as root:
        await root.plugin(ShellEnv)
        assert root[SHELL_ENV].collect(None)["DSH_HOME"] == "/elsewhere"


async def test_contributions_are_asked_for_each_command(root: Context, agent: Any) -> None:
    env, asked = root[SHELL_ENV], []

    def resolve(who: Any) -> dict[str, str]:
        asked.append(who)
        return {"DSH_B": f"b{len(asked)}", "DSH_A": "a"} if who else {}

    env.register("mine", {"DSH_B": "A counter.", "DSH_A": "A letter."}, resolve=resolve)
    caller = agent("s")
    assert env.collect(caller)["DSH_B"] == "b1"
    assert env.collect(caller)["DSH_B"] == "b2"
    assert list(env.collect(caller)) == sorted(env.collect(caller))
    assert "DSH_A" not in env.collect(None)
    assert asked[0] is caller
    assert env.list() == (
        VariableInfo("DSH_B", "A counter."),
        VariableInfo("DSH_A", "A letter."),
    )


async def test_a_collection_cannot_be_changed_and_changes_nothing(root: Context) -> None:
    before = dict(os.environ)
    collected: Any = root[SHELL_ENV].collect(None)
    with pytest.raises(TypeError):
        collected["DSH_X"] = "1"
    assert dict(os.environ) == before


async def test_a_contribution_goes_with_its_owner(root: Context) -> None:
    def plugin(ctx: Context, config: object) -> None:
        ctx[SHELL_ENV].register("mine", {"DSH_A": "A."}, resolve=lambda _: {"DSH_A": "a"})

    for _ in range(2):
        fiber = await root.plugin(plugin, inject=(SHELL_ENV,))
        assert root[SHELL_ENV].collect(None)["DSH_A"] == "a"
        await fiber.dispose()
        assert "DSH_A" not in root[SHELL_ENV].collect(None)
        assert root[SHELL_ENV].list() == ()


async def test_a_disposer_takes_one_contribution_back(root: Context) -> None:
    env = root[SHELL_ENV]
    dispose = env.register("mine", {"DSH_A": "A."}, resolve=lambda _: {"DSH_A": "a"})
    env.register("other", {"DSH_B": "B."}, resolve=lambda _: {"DSH_B": "b"})
    dispose()
    assert [info.name for info in env.list()] == ["DSH_B"]


@pytest.mark.parametrize(
    ("owner", "variables", "code"),
    [
        (" ", {"DSH_A": "A."}, "DUPLICATE_VARIABLE"),
        ("taken", {"DSH_A": "A."}, "DUPLICATE_VARIABLE"),
        ("new", {"DSH_TAKEN": "A."}, "DUPLICATE_VARIABLE"),
        ("new", {"DSH_HOME": "A."}, "DUPLICATE_VARIABLE"),
        ("new", {"DSH_SHELL": "A."}, "DUPLICATE_VARIABLE"),
        ("new", {"DSH_SESSION_ID": "A."}, "DUPLICATE_VARIABLE"),
        ("new", {"DSH_A": " "}, "INVALID_VARIABLE"),
        ("new", {"A": "A."}, "INVALID_VARIABLE"),
        ("new", {"DSH_": "A."}, "INVALID_VARIABLE"),
        ("new", {"DSH_1": "A."}, "INVALID_VARIABLE"),
        ("new", {"DSH_a": "A."}, "INVALID_VARIABLE"),
        ("new", {"DSH_A\n": "A."}, "INVALID_VARIABLE"),
    ],
)
async def test_a_wrong_contribution_is_refused_as_a_whole(
    root: Context, owner: str, variables: dict[str, str], code: str
) -> None:
    env = root[SHELL_ENV]
    env.register("taken", {"DSH_TAKEN": "T."}, resolve=lambda _: {})
    with pytest.raises(ShellEnvError) as caught:
        env.register(owner, {"DSH_GOOD": "Good.", **variables}, resolve=lambda _: {})
    assert caught.value.code == code
    assert [info.name for info in env.list()] == ["DSH_TAKEN"]


@pytest.mark.parametrize("values", [{"DSH_OTHER": "x"}, {"DSH_A": 1}, {"DSH_A": None}])
async def test_a_value_that_was_not_declared_or_is_no_text_fails_the_command(
    root: Context, values: Any
) -> None:
    root[SHELL_ENV].register("mine", {"DSH_A": "A."}, resolve=lambda _: values)
    with pytest.raises(ShellEnvError, match="'mine'") as caught:
        root[SHELL_ENV].collect(None)
    assert caught.value.code == "INVALID_VARIABLE"
