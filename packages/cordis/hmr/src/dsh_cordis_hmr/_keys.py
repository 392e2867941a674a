"""What the service is called, takes and tells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import msgspec
from dsh_cordis import Emit, Parallel, ServiceKey
from msgspec import Meta

if TYPE_CHECKING:
    from ._hmr import Hmr  # noqa: F401 - named by the key below

HMR: Final = ServiceKey["Hmr"]("hmr")


AtFirst: TypeAlias = Literal["if-present", "always", "never"]
"""When a refresh runs once as the watch begins."""


class HmrConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is watched beside configuration files."""

    root: Annotated[
        tuple[str, ...],
        Meta(
            description=(
                "directories that are watched with all below them, relative to the working"
                " directory; the sources of mounted rows need none"
            )
        ),
    ] = ()
    ignored: Annotated[
        tuple[str, ...],
        Meta(
            description=(
                "what is left out there: patterns of paths relative to the root, with `**/` of"
                " names at any depth"
            )
        ),
    ] = ("**/.*", "**/__pycache__", "**/node_modules", "cache", "data")
    debounce_ms: Annotated[
        int,
        Meta(ge=1, le=60_000, description="how long it must be quiet before a change counts"),
    ] = 100
    sources: Annotated[
        bool,
        Meta(description="whether plugins are reloaded; files of rows always are"),
    ] = True


class Reloaded(msgspec.Struct, frozen=True):
    """New code runs."""

    files: tuple[Path, ...]
    """The source files that had changed."""
    rows: tuple[str, ...]
    """Ids of the entries that were replaced."""


class ConfigUpdateFailed(msgspec.Struct, frozen=True):
    """A watched file changed and what it says could not be used; the old state goes on."""

    file: Path
    error: Exception


HMR_CHANGE: Final = Emit[Path]("hmr/change", contained=True)
"""A file changed below a root or beside a plugin's source that is neither source nor
configuration of anything mounted."""

HMR_RELOAD: Final = Emit[Reloaded]("hmr/reload", contained=True)
"""Rows run the code that their files hold now."""

CONFIG_UPDATE_FAILED: Final = Parallel[ConfigUpdateFailed](
    "hmr/config-update-failed", contained=True
)
"""A watched file changed and its refresh failed."""
