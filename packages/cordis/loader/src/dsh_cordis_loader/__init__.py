"""Entry tree of plugin rows: entry points, files, modules, expressions."""

# More than a dozen names: the row helpers at the end of the list are shared with files of patches.
from __future__ import annotations

from ._entry_points import EntryPoint, EntryPoints, scan_entry_points
from ._errors import LoaderError
from ._expr import Expr
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
from ._tree import Entry
from ._yaml import read_yaml

__all__ = (
    "LOADER",
    "Entry",
    "EntryPoint",
    "EntryPoints",
    "Expr",
    "Loader",
    "LoaderError",
    "LoaderOptions",
    "Row",
    "anchor_name",
    "check_row_fields",
    "parse_rows",
    "read_yaml",
    "resolve_plugin",
    "row_fields",
    "scan_entry_points",
    "walk_rows",
    "with_children",
)
