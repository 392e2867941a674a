"""Rows of the user's that cannot run, whatever they are called and whatever they do."""

from __future__ import annotations

import json
from typing import Any

BROKEN = "raise ValueError('broken on purpose')\n"
RUNS = "def apply(ctx, config): pass\n"


IDS = ("my row", "it's", "a{b}", "a>=1", "$HOME", "--safe", "-", "ü", "a;b", '"')


def test_the_commands_that_are_told_can_be_typed_as_they_stand(user: Any) -> None:
    user.plugins(broken=BROKEN, runs=RUNS)
    rows = "".join(f"    - {{id: {json.dumps(one)}, name: ./broken.py}}\n" for one in IDS)
    user.patch.write_text(f"# mine\n- insert:\n{rows}    - {{id: ok, name: ./runs.py}}\n")
    lines = user.done()
    for row_id, line in zip(IDS, lines, strict=True):
        assert line.startswith(f"dsh: row {row_id!r} (")
    user.follow(lines)
    assert user.done() == []
    assert user.patch.read_text() == "# mine\n- insert:\n    - {id: ok, name: ./runs.py}\n"


def test_a_row_without_an_id_can_be_removed_by_the_command_that_is_told(user: Any) -> None:
    user.plugins(broken=BROKEN, runs=RUNS)
    user.patch.write_text(
        "- insert:\n    - {name: ./runs.py}\n"
        "    - {name: 'cordis:group', config: [{name: ./runs.py}, {name: ./broken.py}]}\n"
    )
    lines = user.done()
    assert len(lines) == 1
    user.follow(lines)
    assert user.done() == []
    assert user.patch.read_text().count("runs.py") == 2


def test_a_command_touches_only_the_file_that_holds_the_row(user: Any) -> None:
    user.plugins(broken=BROKEN, runs=RUNS)
    mine = "# rows\n- insert: [{id: ok, name: ./runs.py}]\n- {id: tool-todo, disabled: true}\n"
    user.patch.write_text(mine)
    broken = user.profile / "broken.py"
    user.home_patch.write_text(f"- insert: [{{id: b, name: {broken}}}]\n# the end\n")
    (line,) = user.done()
    assert f"it comes from {user.home_patch}; " in line
    assert user.done("--safe") == []
    refused = user.refused("--strict")
    assert refused[0] == line.replace("is left out", "fails")
    user.follow([line])
    assert user.done("--strict") == []
    assert user.patch.read_text() == mine
    assert "# the end" in user.home_patch.read_text()


def test_a_row_that_a_second_file_breaks_is_gone_from_both_after_one_command(user: Any) -> None:
    user.plugins(typed="import msgspec\nclass Config(msgspec.Struct):\n    size: int = 1\n" + RUNS)
    user.patch.write_text("- insert: [{id: t, name: ./typed.py}]\n")
    user.home_patch.write_text("- {id: t, config: {size: big}}\n")
    (line,) = user.done()
    assert "Expected `int`, got `str` (at size)" in line
    user.follow([line])
    assert user.done() == []
    assert user.patch.read_text() == user.home_patch.read_text() == "[]\n"


def test_of_two_rows_that_provide_one_service_the_first_stays(user: Any) -> None:
    gives = "from dsh_cordis import ServiceKey\n"
    gives += "def apply(ctx, config): ctx.provide(ServiceKey('mine'), object())\n"
    wants = "from dsh_cordis import ServiceKey\ninject = (ServiceKey('mine'),)\n" + RUNS
    user.plugins(one=gives, two=gives, wants=wants)
    rows = ("{id: w, name: ./wants.py}", "{id: g1, name: ./one.py}", "{id: g2, name: ./two.py}")
    user.patch.write_text(f"- insert: [{', '.join(rows)}]\n")
    (line,) = user.done()
    assert line.startswith("dsh: row 'g2' (")
    assert '"mine" has been registered at <g1>' in line
    user.follow([line])
    assert user.done("--strict") == []


def test_a_task_that_no_row_takes_is_told_instead_of_waiting_for_ever(user: Any) -> None:
    user.patch.write_text("- {id: headless-runner, disabled: true}\n")
    (line,) = user.refused()
    assert line.startswith("dsh: no row takes the task: headless-runner is switched off")
    assert line.endswith("dsh headless --safe")
    assert user.done("--safe") == []
    user.type("dsh plugin --profile headless remove headless-runner")
    assert user.done() == []


ODD = {
    "lines": ("raise ValueError('one\\ntwo')\n", "ValueError: one two"),
    "textless": (
        "class OddError(Exception):\n"
        "    def __str__(self): raise RuntimeError('no text')\n"
        "raise OddError\n",
        "no text",
    ),
    "recursion": ("def deep(): deep()\ndeep()\n", "RecursionError"),
    "nul": ("x = 1\0\n", "null bytes"),
    "nothing": ("x = 1\n", 'expect function or object with an "apply" method'),
    "inject": ("inject = 'tools'\n" + RUNS, "expected a ServiceKey"),
    "second": (
        "def apply(ctx, config):\n    yield lambda: None\n    raise ValueError('later')\n",
        "ValueError: later",
    ),
    "cleanup": (
        "def apply(ctx, config):\n"
        "    def clean(): raise ValueError('of the cleanup')\n"
        "    yield clean\n"
        "    raise ValueError('of the body')\n",
        "ValueError: of the body",
    ),
    "thread": (
        "import threading\n"
        "def apply(ctx, config):\n"
        "    threading.Thread(target=threading.Event().wait).start()\n"
        "    raise ValueError('with a thread')\n",
        "ValueError: with a thread",
    ),
    "stderr": ("import sys\nsys.stderr = None\nraise ValueError('silenced')\n", "silenced"),
    "cancelled": (
        "import asyncio\nasync def apply(ctx, config): raise asyncio.CancelledError\n",
        "CancelledError",
    ),
}
"""A plugin, and what its line says."""


def test_whatever_a_plugin_raises_is_one_line(user: Any) -> None:
    user.plugins(**{name: source for name, (source, _) in ODD.items()})
    rows = "".join(f"    - {{id: {name}, name: ./{name}.py}}\n" for name in ODD)
    user.patch.write_text(f"- insert:\n{rows}")
    lines = {line.split("'")[1]: line for line in user.done()}
    assert lines.keys() == ODD.keys()
    assert all(reason in lines[name] for name, (_, reason) in ODD.items()), lines
    user.type(f"dsh plugin --profile headless remove {' '.join(ODD)}")
    assert user.done() == []


def test_bodies_that_never_end_and_cannot_be_stopped_hold_up_neither_start_nor_end(
    user: Any,
) -> None:
    user.plugins(
        swallows="import asyncio\nasync def apply(ctx, config):\n    while True:\n"
        "        try: await asyncio.Event().wait()\n"
        "        except asyncio.CancelledError: pass\n",
        spins="import asyncio\nasync def apply(ctx, config):\n"
        "    while True: await asyncio.sleep(0)\n",
    )
    user.patch.write_text(
        "- insert: [{id: swallows, name: ./swallows.py}, {id: spins, name: ./spins.py}]\n"
    )
    lines = user.done()
    assert len(lines) == 2
    assert all("it was not active after 600 ms" in line for line in lines)
    user.follow(lines)
    assert user.done() == []


UPDATES = """\
from dsh_cordis_loader import LOADER, LoaderError

inject = (LOADER,)


async def change(ctx):
    for fields in ({"config": {"size": "big"}}, {"config": {"siez": 1}}, {"name": "./no.py"}):
        try:
            await ctx[LOADER].update("typed", fields)
        except LoaderError as error:
            print("refused", flush=True)


def apply(ctx, config):
    ctx.spawn(change, ctx)
"""


def test_a_refused_update_leaves_every_byte_of_the_file(user: Any) -> None:
    typed = "import msgspec\nclass Config(msgspec.Struct, forbid_unknown_fields=True):\n"
    user.plugins(typed=typed + "    size: int = 1\n" + RUNS, updates=UPDATES)
    user.patch.write_text(
        "# mine\n- insert:\n    - {id: typed, name: ./typed.py, config: {size: 5}} # five\n"
        "    - {id: updates, name: ./updates.py}\n"
    )
    before = user.patch.read_bytes()
    run = user.dsh.run("headless", "x")
    assert (run.code, sorted(run.stdout.split())) == (0, ["done", "refused", "refused", "refused"])
    assert user.patch.read_bytes() == before
    assert not user.patch.with_name("cordis.patch.yml.last-good").exists()
    assert user.dsh.run("headless", "--strict", "x").code == 0
