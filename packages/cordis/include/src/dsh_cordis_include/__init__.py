"""Lists of rows, groups and patch files for the entry tree."""

from __future__ import annotations

from ._carriers import read_rows_file, register_builtins
from ._errors import IncludeError
from ._patches import Patch, Warn, apply_patches, parse_patches, read_patch_file
from ._stores import PatchFileStore, remove_row_from_file

__all__ = (
    "IncludeError",
    "Patch",
    "PatchFileStore",
    "Warn",
    "apply_patches",
    "parse_patches",
    "read_patch_file",
    "read_rows_file",
    "register_builtins",
    "remove_row_from_file",
)
