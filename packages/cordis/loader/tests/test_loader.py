from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest
from dsh_cordis import Context, FiberState
from dsh_cordis_loader import LOADER, Loader, LoaderError, Row

pytestmark = pytest.mark.anyio
Rows = Callable[[str], tuple[Row, ...]]


@pytest.fixture(autouse=True)
def _quiet_kernel(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "dsh.cordis")


def states(loader: Loader) -> dict[str, str | None]:
    return {e.id: e.fiber.state.name if e.fiber else None for e in loader.entries()}


async def refusal(loader: Loader, rows: tuple[Row, ...]) -> LoaderError:
    with pytest.raises(LoaderError) as caught:
        await loader.apply(rows)
    return caught.value


async def test_a_consumer_row_first_gets_the_value_of_a_provider_row_after_it(
    loader: Loader, rows: Rows, journal: list[object]
):
    await loader.apply(
        rows("""
            - {id: c, name: "@note_p", config: {v: !expr ctx.p.value}}
            - {id: p, name: "@Provider", config: {value: 3}}
        """)
    )
    assert journal == [("up", {"v": 3})]
    assert states(loader) == {"c": "ACTIVE", "p": "ACTIVE"}


async def test_an_expression_is_read_again_when_its_provider_returns_with_another_value(
    loader: Loader, rows: Rows, journal: list[object]
):
    text = """
        - {id: c, name: "@note_p", config: {v: !expr ctx.p.value}}
        - {id: p, name: "@Provider", config: {value: 3}}
    """
    await loader.apply(rows(text))
    await loader.apply(rows(text.replace("3", "4")))
    assert journal == [("up", {"v": 3}), ("down", {"v": 3}), ("up", {"v": 4})]


async def test_a_row_whose_service_is_missing_waits_without_blocking_others(
    loader: Loader, rows: Rows, journal: list[object]
):
    await loader.apply(rows("[{id: c, name: '@note_p'}, {id: n, name: '@note'}]"))
    assert states(loader) == {"c": "PENDING", "n": "ACTIVE"}
    assert [entry.missing_services for entry in loader.entries()] == [("p",), ()]
    await loader.settled()


async def test_inject_of_a_row_gates_its_plugin(loader: Loader, rows: Rows, journal: list[object]):
    await loader.apply(
        rows("[{id: n, name: '@note', inject: [p], config: {v: !expr ctx.p.value}}]")
    )
    assert states(loader) == {"n": "PENDING"}
    await loader.apply(
        rows("""
            - {id: n, name: '@note', inject: [p], config: {v: !expr ctx.p.value}}
            - {id: p, name: '@Provider', config: {value: x}}
        """)
    )
    assert journal == [("up", {"v": "x"})]


async def test_none_of_an_expression_removes_its_key_and_stays_in_a_list(
    loader: Loader, rows: Rows, journal: list[object]
):
    await loader.apply(
        rows("""
            - id: n
              name: "@note"
              config:
                gone: !expr env.B
                kept: null
                list: [!expr env.B, !expr env.A]
                home: !expr dsh_home('s')
        """)
    )
    assert journal == [("up", {"kept": None, "list": [None, "1"], "home": "/h/s"})]


async def test_an_expression_error_names_row_key_and_expression(loader: Loader, rows: Rows):
    error = await refusal(
        loader, rows("[{id: n, name: '@note', config: {a: [{b: !expr envv.A}]}}]")
    )
    assert "row 'n', config.a[0].b: !expr 'envv.A': unknown name 'envv'" in str(error)
    assert "known: ctx, cwd, env, platform" in str(error)


async def test_ctx_shows_only_what_the_row_injects(loader: Loader, rows: Rows):
    error = await refusal(loader, rows("[{id: n, name: '@note', config: {a: !expr ctx.p.value}}]"))
    assert "unknown name 'ctx.p': the row injects nothing" in str(error)


async def test_a_service_that_publishes_nothing_is_named(loader: Loader, rows: Rows):
    text = "[{id: n, name: '@note', inject: [journal], config: {a: !expr ctx.journal.x}}]"
    assert "'journal' publishes nothing for expressions" in str(await refusal(loader, rows(text)))


async def test_ctx_is_unknown_to_disabled(loader: Loader, rows: Rows):
    error = await refusal(loader, rows("[{id: n, name: '@note', disabled: !expr ctx.p.value}]"))
    assert "row 'n', disabled: !expr 'ctx.p.value': unknown name 'ctx'" in str(error)


async def test_a_disabled_expression_is_evaluated_again_on_each_update(
    loader: Loader, rows: Rows, journal: list[object]
):
    text = "[{id: n, name: '@note', disabled: !expr \"env.A == '1'\"}]"
    await loader.apply(rows(text))
    assert states(loader) == {"n": None}
    await loader.apply(rows(text.replace("'1'", "'2'")))
    assert states(loader) == {"n": "ACTIVE"}
    await loader.apply(rows(text))
    assert states(loader) == {"n": None}
    assert [kind for kind, _ in journal] == ["up", "down"]  # pyright: ignore[reportGeneralTypeIssues]


async def test_equal_rows_are_untouched_and_removed_ones_unwound(
    loader: Loader, rows: Rows, journal: list[object]
):
    await loader.apply(
        rows("[{id: a, name: '@note', config: a}, {id: b, name: '@note', config: b}]")
    )
    fiber = loader.entries()[0].fiber
    await loader.apply(rows("[{id: a, name: '@note', config: a}]"))
    assert loader.entries()[0].fiber is fiber
    assert journal == [("up", "a"), ("up", "b"), ("down", "b")]


async def test_a_failing_row_undoes_change_and_addition_and_is_named(
    loader: Loader, rows: Rows, journal: list[object]
):
    await loader.apply(rows("[{id: a, name: '@note', config: 1}, {id: gone, name: '@note'}]"))
    before = states(loader)
    error = await refusal(
        loader,
        rows("""
            - {id: a, name: '@note', config: 2}
            - {id: new, name: '@note', config: new}
            - {id: bad, name: '@broken'}
        """),
    )
    assert error.code == "APPLY_FAILED"
    assert str(error).startswith("failed to apply loader entry bad (")
    assert str(error).endswith("): ValueError: boom")
    assert isinstance(error.__cause__, ValueError)
    assert states(loader) == before
    undone = [("down", "new"), ("up", None), ("down", 2), ("up", 1)]
    assert sorted(map(str, journal[-4:])) == sorted(map(str, undone))


async def test_several_failing_rows_are_all_named(loader: Loader, rows: Rows):
    error = await refusal(loader, rows("[{id: x, name: '@broken'}, {id: y, name: '@broken'}]"))
    assert str(error).startswith("loader entries failed to apply:")
    assert "loader entry x " in str(error)
    assert "loader entry y " in str(error)
    assert loader.entries() == ()


async def test_a_name_that_cannot_be_imported_keeps_the_running_fiber(
    loader: Loader, rows: Rows, journal: list[object]
):
    await loader.apply(rows("[{id: a, name: '@note'}]"))
    fiber = loader.entries()[0].fiber
    for name in ("no-such-plugin", "@nothing", "nosuchmodule:x", "./missing.py"):
        error = await refusal(loader, rows(f"[{{id: a, name: '{name}'}}]"))
        assert str(error).startswith("failed to import loader entry a (")
    assert loader.entries()[0].fiber is fiber
    assert loader.entries()[0].row == rows("[{id: a, name: '@note'}]")[0]
    assert len(journal) == 1


async def test_a_new_name_replaces_the_plugin(loader: Loader, rows: Rows, journal: list[object]):
    await loader.apply(rows("[{id: a, name: '@note', config: 1}]"))
    await loader.apply(rows("[{id: a, name: '@sometimes', config: {n: 2}}]"))
    assert journal == [("up", 1), ("down", 1), ("up", {"n": 2})]


async def test_a_failing_replacement_restores_the_old_plugin(
    loader: Loader, rows: Rows, journal: list[object]
):
    await loader.apply(rows("[{id: a, name: '@note', config: 1}]"))
    await refusal(loader, rows("[{id: a, name: '@broken', config: 1}]"))
    assert journal == [("up", 1), ("down", 1), ("up", 1)]
    assert states(loader) == {"a": "ACTIVE"}


async def test_configuration_that_cannot_be_filled_leaves_the_old_instance_running(
    loader: Loader, rows: Rows, journal: list[object]
):
    await loader.apply(rows("[{id: a, name: '@note', config: 1}]"))
    await refusal(loader, rows("[{id: a, name: '@note', config: {x: !expr nope}}]"))
    assert journal == [("up", 1)]
    await loader.apply(rows("[{id: a, name: '@note', config: 2}]"))
    assert journal == [("up", 1), ("down", 1), ("up", 2)]


async def test_configuration_that_makes_a_plugin_fail_is_taken_back(
    loader: Loader, rows: Rows, journal: list[object]
):
    await loader.apply(rows("[{id: a, name: '@sometimes', config: {n: 1}}]"))
    await refusal(loader, rows("[{id: a, name: '@sometimes', config: {fail: true}}]"))
    assert journal == [("up", {"n": 1}), ("down", {"n": 1}), ("up", {"n": 1})]


async def test_a_check_that_refuses_undoes_the_change(
    loader: Loader, rows: Rows, journal: list[object]
):
    def refuse() -> None:
        raise LoaderError("no", code="X")

    with pytest.raises(LoaderError, match="no"):
        await loader.apply(rows("[{id: a, name: '@note'}]"), check=refuse)
    assert journal == [("up", None), ("down", None)]


async def test_a_restoration_that_fails_is_told_with_its_cause(
    loader: Loader, rows: Rows, journal: list[object]
):
    await loader.apply(rows("[{id: a, name: '@once'}]"))
    error = await refusal(loader, rows("[{id: a, name: '@broken'}]"))
    assert error.code == "ROLLBACK_FAILED"
    assert str(error).startswith(
        "loader entry rollback failed:\n  - failed to rollback loader entry"
    )
    assert "after: failed to apply loader entry a" in str(error)


async def test_changes_asked_for_at_once_follow_each_other(
    loader: Loader, rows: Rows, journal: list[object]
):
    async with anyio.create_task_group() as group:
        for number in range(3):
            text = f"[{{id: a, name: '@slowly', config: {number}}}]"
            group.start_soon(loader.apply, rows(text))
    assert journal == [
        *[("begin", 0), ("up", 0), ("down", 0)],
        *[("begin", 1), ("up", 1), ("down", 1)],
        *[("begin", 2), ("up", 2)],
    ]


async def test_settled_waits_for_a_change_in_progress(
    loader: Loader, rows: Rows, journal: list[object]
):
    async with anyio.create_task_group() as group:
        group.start_soon(loader.apply, rows("[{id: a, name: '@slowly', config: 1}]"))
        await anyio.lowlevel.checkpoint()
        await loader.settled()
        assert journal == [("begin", 1), ("up", 1)]


async def test_a_row_that_waits_for_the_tree_does_not_hold_up_its_own_end(
    loader: Loader, rows: Rows, journal: list[object]
):
    def refuse() -> None:
        raise LoaderError("no", code="X")

    with pytest.raises(LoaderError, match="no"):
        await loader.apply(
            rows("[{id: r, name: '@runner'}, {id: a, name: '@slowly'}]"), check=refuse
        )
    assert loader.entries() == ()
    assert journal.index("stop") < journal.index("settled")


async def test_a_row_that_waits_for_the_tree_goes_on_when_it_rests(
    loader: Loader, rows: Rows, journal: list[object]
):
    await loader.apply(rows("[{id: r, name: '@runner'}, {id: a, name: '@slowly'}]"))
    await anyio.wait_all_tasks_blocked()
    assert journal == [("begin", None), ("up", None), "settled"]


async def test_rows_start_together_whatever_their_order(
    loader: Loader, rows: Rows, journal: list[object]
):
    await loader.apply(
        rows("[{id: a, name: '@slowly', config: 1}, {id: b, name: '@slowly', config: 2}]")
    )
    assert journal == [("begin", 1), ("begin", 2), ("up", 1), ("up", 2)]


async def test_an_id_may_occur_once(loader: Loader, rows: Rows):
    error = await refusal(loader, rows("[{id: a, name: '@note'}, {id: a, name: '@note'}]"))
    assert error.code == "DUPLICATE_ID"
    assert str(error).startswith("duplicate loader entry id: a")


async def test_unknown_names_list_what_is_installed(loader: Loader, rows: Rows):
    error = await refusal(loader, rows("[{id: a, name: dsh-tols}]"))
    assert error.code == "UNKNOWN_PLUGIN"
    assert "no plugin is installed" in str(error)


async def test_settled_raises_rows_that_failed_later(loader: Loader, rows: Rows, plugins: str):
    text = """
        - {id: s, name: "@sometimes", inject: [p], config: {fail: !expr ctx.p.value}}
        - {id: p, name: "@Provider", config: {value: %s}}
    """
    await loader.apply(rows(text % "false"))
    provider = next(e for e in loader.entries() if e.id == "p").fiber
    assert provider is not None
    await provider.update({"value": True})
    with pytest.raises(LoaderError, match=r"failed to apply loader entry s .*boom"):
        await loader.settled()


async def test_a_row_that_failed_later_does_not_block_other_changes(
    loader: Loader, rows: Rows, journal: list[object]
):
    text = """
        - {id: s, name: "@sometimes", inject: [p], config: {fail: !expr ctx.p.value}}
        - {id: p, name: "@Provider", config: {value: false}}
    """
    await loader.apply(rows(text))
    provider = loader.entries()[1].fiber
    assert provider is not None
    await provider.update({"value": True})
    with pytest.raises(LoaderError):
        await loader.settled()
    now = text.replace("false", "true").rstrip()
    await loader.apply(rows(now + "\n        - {id: n, name: '@note', config: new}\n"))
    assert states(loader) == {"s": "FAILED", "p": "ACTIVE", "n": "ACTIVE"}


async def test_a_row_that_disposes_the_tree_makes_apply_return(rows: Rows, loader: Loader):
    root = loader.own.root

    def quit_all(ctx: Context, config: object) -> None:
        root.fiber.dispose()

    loader.builtin("quit", quit_all)
    await loader.apply(rows("[{id: q, name: 'cordis:quit'}, {id: c, name: '@note_p'}]"))
    await root.fiber.dispose()
    assert root.get(LOADER) is None


async def test_a_fiber_mounted_by_a_row_knows_its_entry(rows: Rows, loader: Loader):
    seen: list[object] = []
    loader.builtin("seen", lambda ctx, config: seen.append(ctx.meta("loader_entry")))
    await loader.apply(rows("[{id: q, name: 'cordis:seen'}]"))
    assert seen == list(loader.entries())
    assert loader.entries()[0].fiber.state is FiberState.ACTIVE  # pyright: ignore[reportOptionalMemberAccess]
