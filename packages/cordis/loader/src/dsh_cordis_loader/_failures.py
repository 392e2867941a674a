"""What went wrong with which row, in the loader's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from dsh_cordis import ConfigError, CordisError, FiberState

from ._entry import Entry
from ._errors import LoaderError
from ._rows import Row

_CODES: Final = {
    "import": "IMPORT_FAILED",
    "apply": "APPLY_FAILED",
    "rollback": "ROLLBACK_FAILED",
}


class RowFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A row that does not run after a tolerant start."""

    entry_id: str
    row: Row
    """The row as it was asked for. One that repeats an id is named by its own origin here."""
    kind: Literal["import", "apply", "wait", "timeout"]
    """`wait` rows are mounted and pending, all others are not mounted."""
    missing: tuple[str, ...] = ()
    """The services that a `wait` row lacks."""
    error: BaseException | None = None
    """What the plugin or its import raised; None for `wait` and `timeout`."""
    message: str
    """The whole story in one sentence, with the row's id and name."""


def failed(action: str, entry_id: str, row: Row, error: BaseException) -> LoaderError:
    """The loader's error for a row; what was raised is its cause."""
    detail = str(error) if isinstance(error, CordisError) else f"{type(error).__name__}: {error}"
    code = _CODES[action]
    if isinstance(error, LoaderError) and error.code == "UNKNOWN_PLUGIN":
        code = error.code
    failure = LoaderError(
        f"failed to {action} loader entry {entry_id} ({row.name}): {detail}{_set_by(row, error)}",
        code=code,
    )
    failure.__cause__ = error
    return failure


def entry_failure(entry: Entry, action: str = "apply") -> LoaderError | None:
    """Why the entry's plugin is FAILED, or None if it is not."""
    fiber = entry.fiber
    if fiber is None or fiber.state is not FiberState.FAILED or fiber.error is None:
        return None
    return failed(action, entry.id, entry.row, fiber.error)


def combine(failures: Sequence[LoaderError]) -> LoaderError:
    """The only failure, or one error that lists several."""
    unique = list({str(failure): failure for failure in failures}.values())
    if len(unique) == 1:
        return unique[0]
    lines = "".join(f"\n  - {failure}" for failure in unique)
    error = LoaderError(f"loader entries failed to apply:{lines}", code="APPLY_FAILED")
    error.__cause__ = unique[0].__cause__
    return error


def duplicate(first: Row, second: Row) -> LoaderError:
    """Two rows of one tree share an id."""
    origins = " and ".join(dict.fromkeys(filter(None, (first.origin, second.origin))))
    by = f" (from {origins})" if origins else ""
    return LoaderError(f"duplicate loader entry id: {first.id}{by}", code="DUPLICATE_ID")


def _set_by(row: Row, error: BaseException) -> str:
    """Whose configuration it is, where configuration is what is wrong."""
    blamed = isinstance(error, ConfigError) or (
        isinstance(error, LoaderError) and error.code == "INVALID_EXPRESSION"
    )
    layer = row.config_from or row.origin
    return f" (set by {layer})" if blamed and layer else ""
