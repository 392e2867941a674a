"""What a child process inherits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_SECRET_PARTS: Final = ("KEY", "PASSWORD", "SECRET", "TOKEN")
_PRIVATE_PREFIX: Final = "DSH_"


def scrubbed_parent_env(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without names that look like credentials and without the harness's own.

    Dropped, whatever the case: names that contain KEY, PASSWORD, SECRET or TOKEN, and names that
    begin with `DSH_`.
    """
    return {name: value for name, value in environ.items() if _may_inherit(name.upper())}


def child_environment(
    environ: Mapping[str, str], overrides: Mapping[str, str | None]
) -> dict[str, str]:
    """The scrubbed parent environment with `overrides` on top.

    A text restores or sets anything, a credential included; None removes the name.
    """
    child = scrubbed_parent_env(environ)
    for name, value in overrides.items():
        if value is None:
            child.pop(name, None)
        else:
            child[name] = value
    return child


def _may_inherit(name: str) -> bool:
    return not name.startswith(_PRIVATE_PREFIX) and not any(part in name for part in _SECRET_PARTS)
