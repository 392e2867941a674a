"""Files of this machine with atomic, versioned writes."""

from __future__ import annotations

from ._service import FsLocalConfig, LocalFileSystem

__all__ = ("FsLocalConfig", "LocalFileSystem")
