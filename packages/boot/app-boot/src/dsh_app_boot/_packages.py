"""Finding an installed package's directory without importing it."""

from __future__ import annotations

import importlib.util
from importlib.machinery import PathFinder
from pathlib import Path


def package_directory(module: str) -> Path | None:
    """Where the package `module` keeps its files; None if it is not installed as a directory."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    name = top
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        name = f"{name}.{part}"
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    locations = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(locations[0]) if locations else None
