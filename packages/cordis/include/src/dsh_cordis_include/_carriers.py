"""Rows that hold rows: `cordis:group` and `cordis:include`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import msgspec
from dsh_cordis import Internal
from dsh_cordis_loader import LOADER, LoaderError, Row, parse_rows, read_yaml

from ._errors import IncludeError
from ._patches import apply_patches, parse_patches
from ._stores import RowFileStore, write_initial_rows

if TYPE_CHECKING:
    from dsh_cordis import Context, Disposer, Fiber, Next
    from dsh_cordis_loader import Entry, Loader

_log = logging.getLogger("dsh.cordis.include")
_EXTENSIONS: Final = (".yml", ".yaml", ".json")
_KEYS: Final = ("path", "initial", "patches")


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
    """`cordis:include`: mounts the rows of another file, `config: {path, initial?, patches?}`.

    Their ids are `<id of the include>:<id>`; patches of outer layers do not reach them, those in
    `patches` do. `initial` is a list of rows that is written to the file if there is none.
    """

    name = "cordis:include"
    inject = (LOADER,)
    literal_config = True
    """Told to the loader: expressions in it belong to the rows that it holds."""

    async def apply(self, ctx: Context, config: object) -> Disposer:
        """Read, patch and mount. Raises IncludeError if file or patches cannot be used."""
        loader = ctx[LOADER]
        source = _IncludedFile(loader, loader.own_entry(), config)
        source.refuse_circle()
        ctx.on(Internal.UPDATE, source.update)
        return await loader.carry(source.open(), nested=True, source=source)


def register_builtins(loader: Loader) -> None:
    """Make `cordis:group` and `cordis:include` usable as row names."""
    loader.builtin("group", Group())
    loader.builtin("include", Include())


def read_rows_file(file: str | Path) -> tuple[Row, ...]:
    """The rows of a `.yml`, `.yaml` or `.json` file. Raises IncludeError with the file's name."""
    file = Path(file)
    return parsed_rows(_read(file), file=file)


def parsed_rows(data: bytes, *, file: Path) -> tuple[Row, ...]:
    """The rows that `data` holds as the content of `file`. Raises IncludeError."""
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


class _Settings(msgspec.Struct, frozen=True):
    path: str
    initial: object
    patches: object


class _IncludedFile:
    """The file of one mounted include: read, patched, read again, written back."""

    def __init__(self, loader: Loader, entry: Entry, config: object) -> None:
        self._loader = loader
        self._entry = entry
        self._settings = _checked(entry, config)
        self.file = Path(entry.row.base or ".", self._settings.path).absolute()
        self.store = RowFileStore(self.file, written=self._commit)
        self._data = b""

    def refuse_circle(self) -> None:
        """Raises IncludeError if the row of the include comes from the file that it includes."""
        own, holder = self.file.resolve(), self._entry.parent
        while holder is not None:
            source = holder.members.source if holder.members is not None else None
            if source is not None and source.file.resolve() == own:
                raise IncludeError(
                    f"include {self._entry.id}: {self.file} includes itself", code="CONFIG_INVALID"
                )
            holder = holder.parent

    def open(self) -> tuple[Row, ...]:
        """The rows to begin with. Raises IncludeError."""
        try:
            data = _read(self.file)
        except IncludeError as error:
            if error.code != "CONFIG_NOT_FOUND" or self._settings.initial is None:
                raise
            data = self._write_initial()
        rows = self._rows(data, self._settings)
        self._data = data
        return rows

    async def refresh(self) -> None:
        """Read the file again and change what differs; the same text again changes nothing.

        Raises IncludeError or LoaderError, and then the tree is as it was and the next text is
        tried anew.
        """
        await self._loader.exclusively(self._refresh, gone=None)

    async def update(
        self,
        _fiber: Fiber,
        config: object,
        _no_save: bool,  # noqa: FBT001 - the event's shape
        next: Next[None],
    ) -> None:
        """Take another configuration in place if the file stays the same one."""
        settings = _checked(self._entry, config)
        if settings.path != self._settings.path:
            await next()
            return

        async def change() -> None:
            await self._loader.rearrange(self._rows(self._data, settings))
            self._settings = settings

        await self._loader.exclusively(change, gone=None)

    async def _refresh(self) -> None:
        data = _read(self.file)
        if data == self._data:
            return
        await self._loader.rearrange(self._rows(data, self._settings))
        self._data = data

    def _commit(self, data: bytes) -> None:
        self._data = data

    def _rows(self, data: bytes, settings: _Settings) -> tuple[Row, ...]:
        rows = parsed_rows(data, file=self.file)
        if settings.patches is None:
            return rows
        row = self._entry.row
        patches = parse_patches(
            settings.patches,
            where=f"include {self._entry.id}",
            base=row.base,
            layer=row.config_from or row.origin,
        )
        return apply_patches(
            rows, patches, warn=lambda layer, text: _log.warning("[%s] %s", layer, text)
        )

    def _write_initial(self) -> bytes:
        initial = self._settings.initial
        try:
            return write_initial_rows(self.file, initial)
        except OSError as error:
            _log.warning(
                "include %s: initial rows could not be written to %s (%s); they run from memory",
                self._entry.id,
                self.file,
                error.strerror or error,
            )
            from dsh_cordis_loader import write_yaml

            return write_yaml(initial).encode()


def _read(file: Path) -> bytes:
    if file.suffix not in _EXTENSIONS:
        raise IncludeError(
            f'extension "{file.suffix}" not supported by {file}; use {", ".join(_EXTENSIONS)}',
            code="CONFIG_INVALID",
        )
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise IncludeError(f"config file not found: {file}", code="CONFIG_NOT_FOUND") from None
    except OSError as error:
        raise IncludeError(
            f"failed to read config file {file}: {error.strerror or error}",
            code="CONFIG_UNREADABLE",
        ) from None


def _checked(entry: Entry, config: object) -> _Settings:
    where = f"include {entry.id}"
    fields: Mapping[str, object] = {}
    if isinstance(config, Mapping):
        fields = cast("Mapping[str, object]", config)
    unknown = sorted(set(fields) - set(_KEYS))
    path = fields.get("path")
    if unknown or not isinstance(path, str) or not path.strip():
        raise IncludeError(
            f"{where}: config is {{path: FILE, patches: [...], initial: [...]}}"
            + (f"; unknown key {unknown[0]!r}" if unknown else f", got path {path!r}"),
            code="CONFIG_INVALID",
        )
    return _Settings(path, fields.get("initial"), fields.get("patches"))
