from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Tree

pytestmark = pytest.mark.anyio


async def test_editing_a_plugin_file_runs_its_body_again_with_the_raw_config(tree: Tree) -> None:
    file = tree.plugin("a.py", 1)
    await tree.rows("[{id: a, name: ./a.py, config: {x: 1}}]")
    await tree.watch()
    tree.plugin("a.py", 2)
    await tree.until(lambda: tree.reloads)
    assert tree.journal == [("up", 1, {"x": 1}), ("down", 1), ("up", 2, {"x": 1})]
    assert tree.reloads[0].files == (file,)
    assert tree.reloads[0].rows == ("a",)
