"""The product's own plugins, as somebody works on them: edited in a copy that runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

FIRST = "from __future__ import annotations"

SCRIPT = """
    import asyncio, sys
    from pathlib import Path

    from dsh_agent_loop_testkit import assert_no_leaks
    from dsh_app_boot import boot, compose, open_profile
    from dsh_cordis import Context, FiberState
    from dsh_cordis_hmr import HMR, HMR_RELOAD
    from dsh_cordis_loader import LOADER, scan_entry_points
    from dsh_launch_environment import LaunchEnvironment
    from dsh_tools import TOOLS

    home, file, old, new = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]

    async def main():
        points = scan_entry_points()
        profile = open_profile("mine", home=home, entry_points=points)
        rows = compose(profile, home=home, entry_points=points).rows
        async with assert_no_leaks(), Context() as root:
            await boot(
                root, rows, home=home, environment=LaunchEnvironment({}), entry_points=points
            )
            await root[HMR].ready()
            before = {entry.id: entry.fiber for entry in root[LOADER].entries()}
            reloads = asyncio.Queue()
            root.on(HMR_RELOAD, reloads.put_nowait)
            file.write_text(file.read_text().replace(old, new))
            change = await asyncio.wait_for(reloads.get(), 15)
            after = {entry.id: entry.fiber for entry in root[LOADER].entries()}
            assert {fiber.state for fiber in after.values() if fiber} == {FiberState.ACTIVE}
            replaced = sorted(name for name in before if after[name] is not before[name])
            assert sorted(change.rows) == replaced
            print(*replaced)
            print(*(schema.description for schema in root[TOOLS].schemas(None)), sep="|")

    asyncio.run(main())
"""


@pytest.fixture
def edited(tmp_path: Path):
    """Runs the script over copies of these packages; its two lines of output."""
    profile = tmp_path / "home" / "profiles" / "mine"
    profile.mkdir(parents=True)
    (profile / "pyproject.toml").write_text('[tool.dsh.profile]\nbundles = ["dsh-base"]\n')
    (profile / "cordis.patch.yml").write_text("- {id: hmr, config: {debounceMs: 10}}\n")
    library = tmp_path / "library"

    def run(packages: list[str], file: str, old: str, new: str) -> list[str]:
        for package in packages:
            (source,) = find_spec(package).submodule_search_locations
            shutil.copytree(source, library / package, ignore=shutil.ignore_patterns("__pycache__"))
        assert old in (library / file).read_text()
        done = subprocess.run(
            [
                *(sys.executable, "-c", textwrap.dedent(SCRIPT)),
                *(str(tmp_path / "home"), str(library / file), old, new),
            ],
            env={**os.environ, "PYTHONPATH": str(library)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout.splitlines()

    return run


def test_an_edit_of_a_shipped_tool_reloads_that_tool_alone(edited) -> None:
    rows, descriptions = edited(
        ["dsh_tool_todo"], "dsh_tool_todo/__init__.py", FIRST, FIRST + "\nEDITED = True"
    )
    assert rows == "tool-todo"
    assert descriptions


def test_an_edit_of_a_definition_reloads_all_that_stand_on_it_and_they_find_each_other(
    edited,
) -> None:
    rows, descriptions = edited(
        ["dsh_tools", "dsh_agent", "dsh_agent_loop", "dsh_tool_todo", "dsh_tool_fs"],
        "dsh_tools/__init__.py",
        FIRST,
        FIRST + "\nEDITED = True",
    )
    assert {"tools", "agent-loop", "tool-todo", "tool-fs"} <= set(rows.split())
    assert not {"timer", "llm", "session", "subprocess"} & set(rows.split())
    assert descriptions.count("|") == 4
