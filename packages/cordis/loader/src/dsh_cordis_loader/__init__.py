"""Entry tree of plugin rows: entry points, files, modules, expressions."""

# More than a dozen names: the row helpers at the end of the list are shared with files of patches,
# and the loader is a definition with events and a storage protocol of its own.
from __future__ import annotations

from ._entry import Entry, RowSource
from ._entry_points import EntryPoint, EntryPoints, scan_entry_points
from ._errors import LoaderError
from ._events import CONFIG_UPDATE, ENTRY_INIT, PARTIAL_DISPOSE, PATCH_CONTEXT
from ._expr import Expr
from ._failures import RowFailure
from ._loader import LOADER, Loader
from ._resolve import resolve_plugin
from ._rows import (
    Row,
    anchor_name,
    check_row_fields,
    parse_rows,
    row_fields,
    walk_rows,
    with_children,
)
from ._scope import LoaderOptions
from ._source import SourceLoader
from ._store import RowChange, RowStore
from ._yaml import read_yaml, write_yaml

__all__ = (
    "CONFIG_UPDATE",
    "ENTRY_INIT",
    "LOADER",
    "PARTIAL_DISPOSE",
    "PATCH_CONTEXT",
    "Entry",
    "EntryPoint",
    "EntryPoints",
    "Expr",
    "Loader",
    "LoaderError",
    "LoaderOptions",
    "Row",
    "RowChange",
    "RowFailure",
    "RowSource",
    "RowStore",
    "SourceLoader",
    "anchor_name",
    "check_row_fields",
    "parse_rows",
    "read_yaml",
    "resolve_plugin",
    "row_fields",
    "scan_entry_points",
    "walk_rows",
    "with_children",
    "write_yaml",
)
