"""Rows say what is mounted; editing them, or a plugin's source, reloads what changed."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dsh_app_boot import dump_rows
from dsh_cordis import Context
from dsh_cordis_hmr import CONFIG_UPDATE_FAILED, HMR, HMR_RELOAD, ConfigUpdateFailed, Hmr, Reloaded
from dsh_cordis_include import apply_patches, read_patch_file
from dsh_cordis_loader import LOADER, Loader, LoaderOptions, Row
from notes import NOTES


def compose(folder: Path) -> Sequence[Row]:
    """The user's patches over the bundle's, over nothing."""
    layers = [read_patch_file(folder / name, layer=name) for name in ("base.yml", "mine.yml")]
    return apply_patches((), [patch for layer in layers for patch in layer], warn=print)


async def main(folder: Path) -> None:
    print(dump_rows(compose(folder)).replace(str(folder), "."))
    async with Context() as root:
        await root.plugin(Loader, LoaderOptions(environment={"FIRST_NOTE": "buy bread and butter"}))
        loader = root[LOADER]
        await loader.apply(compose(folder))
        print(root[NOTES].texts())

        happened = asyncio.Queue[str]()

        def failed(update: ConfigUpdateFailed) -> None:
            happened.put_nowait(f"kept the old: {str(update.error).replace(str(folder), '.')}")

        def reloaded(change: Reloaded) -> None:
            happened.put_nowait(f"reloaded {', '.join(change.rows)}")

        async def refresh() -> None:
            await loader.apply(compose(folder))
            happened.put_nowait("applied")

        root.on(CONFIG_UPDATE_FAILED, failed)
        root.on(HMR_RELOAD, reloaded)
        await root.plugin(Hmr)
        root[HMR].watch_file(folder / "mine.yml", refresh)
        await happened.get()  # a file that is there is read once
        await root[HMR].ready()

        first = loader.resolve("first").fiber
        for text in ("[]\n", "- {id: editor, config: {maxLength: 4}}\n"):
            (folder / "mine.yml").write_text(text)
            print(await happened.get(), root[NOTES].texts())
        print("first goes on" if loader.resolve("first").fiber is first else "first was restarted")

        (folder / "mine.yml").write_text("- {id: editor, config: {maxLenght: 4}}\n")
        print(await happened.get())
        source = (folder / "writer.py").read_text()
        (folder / "writer.py").write_text(
            source.replace("Note(config)", 'Note(f"please {config}")')
        )
        print(await happened.get(), root[NOTES].texts())


with tempfile.TemporaryDirectory() as name:
    copy = shutil.copytree(Path(__file__).parent, Path(name).resolve() / "notes")
    asyncio.run(main(copy))
