"""What a child process inherits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_WITHHELD: Final = re.compile(r"\ADSH_|KEY|PASSWORD|SECRET|TOKEN", re.IGNORECASE)


def scrubbed_parent_env(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without names that look like credentials and without the harness's own.

    Dropped, whatever the case: names that contain KEY, PASSWORD, SECRET or TOKEN, and names that
    begin with `DSH_`.
    """
    return {name: value for name, value in environ.items() if not _WITHHELD.search(name)}


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
