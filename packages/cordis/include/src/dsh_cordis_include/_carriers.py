"""Rows that hold rows: `cordis:group` and `cordis:include`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from dsh_cordis_loader import LOADER, LoaderError, Row, parse_rows, read_yaml

from ._errors import IncludeError
from ._patches import apply_patches, parse_patches

if TYPE_CHECKING:
    from dsh_cordis import Context, Disposer
    from dsh_cordis_loader import Entry, Loader

_log = logging.getLogger("dsh.cordis.include")
_EXTENSIONS: Final = (".yml", ".yaml", ".json")


class Group:
    """`cordis:group`: its `config` is a list of rows, mounted while the group itself runs."""

    name = "cordis:group"
    inject = (LOADER,)
    literal_config = True
    """Told to the loader: expressions in it belong to the rows that it holds."""

    async def apply(self, ctx: Context, _config: object) -> Disposer:
        """Mount the rows of the group."""
        return await ctx[LOADER].carry()


class Include:
    """`cordis:include`: mounts the rows of another file, `config: {path, patches?}`.

    Their ids are `<id of the include>:<id>`; patches of outer layers do not reach them, those in
    `patches` do.
    """

    name = "cordis:include"
    inject = (LOADER,)
    literal_config = True
    """Told to the loader: expressions in it belong to the rows that it holds."""

    async def apply(self, ctx: Context, config: object) -> Disposer:
        """Read, patch and mount. Raises IncludeError if file or patches cannot be used."""
        loader = ctx[LOADER]
        rows = _included_rows(loader.own_entry(), config)
        return await loader.carry(rows, nested=True)


def register_builtins(loader: Loader) -> None:
    """Make `cordis:group` and `cordis:include` usable as row names."""
    loader.builtin("group", Group())
    loader.builtin("include", Include())


def read_rows_file(file: str | Path) -> tuple[Row, ...]:
    """The rows of a `.yml`, `.yaml` or `.json` file. Raises IncludeError with the file's name."""
    file = Path(file)
    if file.suffix not in _EXTENSIONS:
        raise IncludeError(
            f'extension "{file.suffix}" not supported by {file}; use {", ".join(_EXTENSIONS)}',
            code="CONFIG_INVALID",
        )
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise IncludeError(f"config file not found: {file}", code="CONFIG_NOT_FOUND") from None
    except OSError as error:
        raise IncludeError(
            f"failed to read config file {file}: {error.strerror or error}",
            code="CONFIG_UNREADABLE",
        ) from None
    try:
        value = read_yaml(data, where=str(file))
    except LoaderError as error:
        raise IncludeError(
            f"failed to parse config file {error}", code="CONFIG_UNPARSABLE"
        ) from None
    try:
        return parse_rows(
            value, where=str(file), base=str(file.parent.absolute()), origin=str(file)
        )
    except LoaderError as error:
        raise IncludeError(
            f"failed to validate config file {error}", code="CONFIG_INVALID"
        ) from None


def _included_rows(entry: Entry, config: object) -> tuple[Row, ...]:
    where = f"include {entry.id}"
    fields: Mapping[str, object] = {}
    if isinstance(config, Mapping):
        fields = cast("Mapping[str, object]", config)
    unknown = sorted(set(fields) - {"path", "patches"})
    path = fields.get("path")
    if unknown or not isinstance(path, str) or not path.strip():
        raise IncludeError(
            f"{where}: config is {{path: FILE, patches: [...]}}"
            + (f"; unknown key {unknown[0]!r}" if unknown else f", got path {path!r}"),
            code="CONFIG_INVALID",
        )
    base = entry.row.base
    rows = read_rows_file(Path(base or ".", path))
    if fields.get("patches") is None:
        return rows
    patches = parse_patches(fields["patches"], where=where, base=base, layer=entry.row.origin)
    return apply_patches(
        rows, patches, warn=lambda layer, text: _log.warning("[%s] %s", layer, text)
    )
