from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from dsh_agent_default_model import AGENT_DEFAULT_MODEL
from dsh_app_boot._live import watch_layers
from dsh_cordis import Context, FiberState, ServiceKey
from dsh_cordis_hmr import HMR
from dsh_cordis_loader import LOADER

if TYPE_CHECKING:
    from conftest import Live

pytestmark = pytest.mark.anyio

NO_HMR = "- {id: hmr, disabled: true}\n"


def row(value: int) -> str:
    return f"{NO_HMR}- insert: [{{id: note, name: ./note.py, config: {value}}}]\n"


async def test_live_edit_works_without_an_hmr_row_and_touches_only_what_changed(
    live: Live,
) -> None:
    live.plugin("note.py", "n")
    live.write(live.patch, row(1))
    async with live.booted() as root:
        assert root.get(HMR) is None
        before = live.fibers()
        live.write(live.patch, row(2))
        await live.until(lambda: ("up", "n", 2) in live.journal)
        assert live.journal == [("up", "n", 1), ("down", "n", 1), ("up", "n", 2)]
        assert live.fibers() == before
        live.write(live.home_patch, "- {id: note, config: 3}\n")
        await live.until(lambda: ("up", "n", 3) in live.journal)
        live.home_patch.unlink()
        await live.until(lambda: live.journal[-1] == ("up", "n", 2))
        assert live.fibers() == before


async def test_a_bad_live_edit_keeps_the_old_value_with_one_failure_event_and_the_next_applies(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    live.plugin("note.py", "n")
    live.write(live.patch, row(1))
    async with live.booted():
        before = live.fibers()
        live.write(live.patch, "- insert: [\n")
        await live.until(lambda: live.failures)
        assert live.fibers() == before
        assert live.journal == [("up", "n", 1)]
        assert [failure.file for failure in live.failures] == [live.patch]
        assert str(live.patch) in str(live.failures[0].error)
        assert f"{live.patch} changed and cannot be used, what was before goes on" in caplog.text
        live.write(live.patch, row(2))
        await live.until(lambda: live.journal[-1] == ("up", "n", 2))
        assert len(live.failures) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only this\n",
        "a: mapping\n",
        "-\tid: x\n",
        "- {id: tool-todo, config: {allowParallelInProgres: true}}\n",
        "- insert: [{id: x, name: there-is-no-such-plugin}]\n",
        "- insert: [{id: tool-todo, name: dsh-tool-todo}]\n",
        "- {id: tool-todo, config: {allowParallelInProgress: !expr ctx.nothing.there}}\n",
        "- insert: [{id: x, name: ./raises.py}]\n",
        "- insert: [{id: x, name: './note.py:nothing'}]\n",
    ],
)
async def test_whatever_is_wrong_the_tree_stays_and_the_next_good_edit_applies(
    live: Live, text: str
) -> None:
    live.plugin("note.py", "n")
    live.write(live.profile / "raises.py", "def apply(ctx, config):\n    raise ValueError('no')\n")
    live.write(live.patch, row(1))
    async with live.booted():
        live.write(live.patch, NO_HMR * bool(text.strip(" #\n").startswith("-")) + text)
        await live.until(lambda: live.failures)
        states = {entry.id: entry.fiber.state for entry in live.loader.entries() if entry.fiber}
        assert set(states.values()) == {FiberState.ACTIVE}
        assert live.journal[-1] == ("up", "n", 1)
        live.write(live.patch, row(2))
        await live.until(lambda: live.journal[-1] == ("up", "n", 2))


async def test_deletion_of_a_layer_reverts_to_the_value_of_the_bundle(live: Live) -> None:
    live.write(
        live.patch,
        f"{NO_HMR}- {{id: agent-default-model, config: {{provider: p, model: of-the-user}}}}\n",
    )
    async with live.booted():

        def model() -> str | None:
            service = live.root.get(AGENT_DEFAULT_MODEL)
            return None if service is None else service.current_selection().model

        assert model() == "of-the-user"
        live.patch.unlink()
        await live.until(lambda: model() == "deepseek-v4-flash")
        await live.until(lambda: live.root.get(HMR) is not None)


async def test_flag_values_survive_a_live_edit(live: Live) -> None:
    class Flags(dict):
        """What an application's command line gave."""

    live.plugin("note.py", "n")
    text = """
        - {{id: hmr, disabled: true}}
        - insert:
            - id: note
              name: ./note.py
              inject: [flags]
              config: {{port: !expr "coalesce(ctx.flags.port, 3080)", greeting: {0}}}
    """
    live.write(live.patch, text.format("hi"))
    async with live.booted(
        provide=lambda root: root.provide(ServiceKey("flags"), Flags(port=8080)) and None
    ):
        live.write(live.patch, text.format("ho"))
        await live.until(lambda: ("up", "n", {"port": 8080, "greeting": "ho"}) in live.journal)


async def test_an_overlay_stays_above_what_is_edited_below_it(live: Live) -> None:
    live.plugin("note.py", "n")
    live.write(live.patch, row(1))
    overlay = live.home / "overlay.yml"
    live.write(overlay, "- {id: note, config: 9}\n")
    live.overlays = [overlay]
    async with live.booted():
        live.write(live.patch, row(2) + "- {id: tool-todo, disabled: true}\n")
        await live.until(lambda: live.fiber("tool-todo") is None)
        assert live.journal == [("up", "n", 9)]


async def test_an_edit_before_the_watch_begins_is_not_lost(live: Live) -> None:
    live.plugin("note.py", "n")
    live.write(live.patch, row(1))
    async with live.booted(delay_s=0.05):
        live.write(live.patch, row(2))
        await live.until(lambda: ("up", "n", 2) in live.journal)


async def test_a_layer_that_went_before_the_watch_began_is_missed(live: Live) -> None:
    live.plugin("note.py", "n")
    live.write(live.patch, NO_HMR)
    live.write(live.home_patch, "- insert: [{id: note, name: ../home/profiles/mine/note.py}]\n")
    async with live.booted(delay_s=0.05):
        live.home_patch.unlink()
        await live.until(lambda: "note" not in live.fibers())
        assert live.journal == [("up", "n", None), ("down", "n", None)]


async def test_a_bad_edit_before_the_watch_begins_is_told_of_once(live: Live) -> None:
    live.write(live.patch, NO_HMR)
    async with live.booted(delay_s=0.05):
        live.write(live.patch, "- {id: tool-todo, nonsense: 1}\n")
        await live.until(lambda: live.failures)
        live.write(live.patch, NO_HMR + "- {id: tool-todo, disabled: true}\n")
        await live.until(lambda: live.fiber("tool-todo") is None)
        assert len(live.failures) == 1


async def test_the_row_of_the_reload_service_can_be_switched_and_changed_live(live: Live) -> None:
    live.plugin("note.py", 1)
    live.write(live.patch, row(1))
    async with live.booted() as root:
        live.write(live.patch, row(1).replace(NO_HMR, "- {id: hmr, config: {debounceMs: 10}}\n"))
        await live.until(lambda: root.get(HMR) is not None)
        live.write(live.patch, row(1).replace(NO_HMR, "- {id: hmr, config: {debounceMs: 11}}\n"))
        await live.until(lambda: live.loader.resolve("hmr").row.config == {"debounceMs": 11})
        await root.get(HMR).ready()
        live.plugin("note.py", 2)
        await live.until(lambda: live.reloads)
        live.write(live.patch, row(1))
        await live.until(lambda: root.get(HMR) is None)
        assert live.journal == [("up", 1, 1), ("down", 1, 1), ("up", 2, 1)]


async def test_correcting_the_plugin_of_a_refused_row_is_enough(live: Live) -> None:
    note = live.profile / "note.py"
    live.write(note, "def apply(:\n")
    live.write(live.patch, NO_HMR)
    async with live.booted():
        live.write(live.patch, row(1))
        await live.until(lambda: live.failures)
        live.write(note, "raise ValueError('second try')\n")
        await live.until(lambda: len(live.failures) == 2)
        assert "second try" in str(live.failures[1].error)
        live.plugin("note.py", "n")
        await live.until(lambda: live.journal)
        assert live.journal == [("up", "n", 1)]


async def test_a_row_that_waits_for_a_service_after_an_edit_is_named(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    live.plugin("note.py", "n")
    live.write(live.patch, NO_HMR)
    async with live.booted():
        live.write(
            live.patch, f"{NO_HMR}- insert: [{{id: note, name: ./note.py, inject: [nowhere]}}]\n"
        )
        await live.until(lambda: "row 'note' waits for: nowhere" in caplog.text)
        assert live.fiber("note").state is FiberState.PENDING


async def test_a_tree_that_ends_while_an_edit_is_applied_ends_at_once(live: Live) -> None:
    live.write(
        live.profile / "quits.py",
        """
        from dsh_cordis import ServiceKey

        def apply(ctx, config):
            ctx.get(ServiceKey("quitting")).set()
            ctx.root.fiber.dispose()
        """,
    )
    live.write(live.patch, NO_HMR)
    quitting = asyncio.Event()
    async with live.booted(
        provide=lambda root: root.provide(ServiceKey("quitting"), quitting) and None
    ) as root:
        live.write(live.patch, f"{NO_HMR}- insert: [{{id: q, name: ./quits.py}}]\n")
        async with asyncio.timeout(10):
            await quitting.wait()
            await root.fiber.quiet()
        assert root.get(LOADER) is None
        assert not live.failures


async def test_before_it_begins_nothing_of_it_is_imported_and_it_ends_without_waiting() -> None:
    script = """
        import asyncio, sys
        from dsh_app_boot._live import watch_layers
        from dsh_cordis import Context
        from dsh_cordis_loader import Loader

        async def main():
            async with Context() as root:
                await root.plugin(Loader)
                await watch_layers(root, files=(), recompose=tuple)
                await asyncio.sleep(0)
            print([name for name in ("dsh_cordis_hmr", "watchfiles") if name in sys.modules])

        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=20
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


async def test_it_can_be_ended_and_begun_again(live: Live) -> None:
    live.plugin("note.py", "n")
    live.write(live.patch, row(1))
    async with live.booted() as root:
        await live.watching.dispose()
        live.write(live.patch, row(2))
        watch_layers(root, files=(live.patch,), recompose=live.compose, delay_s=0)
        await live.until(lambda: ("up", "n", 2) in live.journal)
    assert isinstance(root, Context)
