"""Starting what can start when something of the user's cannot.

A failing row of the installation's own bundles is fatal. What the user's files or out-of-tree
plugins brought is set aside instead, with its reason and the command that removes it: first the
row that fails, or the changes of a bundle's row that make it fail; if that does not explain why a
bundle's row fails, bundle rows that were switched off, all changes of bundle rows, and then
everything that is the user's.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from dsh_cordis import CordisError, ServiceExistsError, ServiceKey
from dsh_cordis_loader import Row, walk_rows

if TYPE_CHECKING:
    from dsh_cordis_loader import Loader, RowFailure

    from ._layers import Composition, Layer

QUARANTINE: Final = ServiceKey["Quarantine"]("quarantine")


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    """One row that does not run as its layers want it."""

    entry_id: str
    name: str
    layer: str
    reason: str
    remedy: str
    reverted: bool = False
    """Whether the row runs, without what the layer changed; otherwise it is left out."""
    stuck: bool = False
    """Whether its body was still running when it was given up, and will never end."""
    refused: bool = False
    """Whether nothing starts because of it."""

    def __str__(self) -> str:
        row = f"row {self.entry_id!r} ({self.name})"
        if self.reverted:
            what = "fails with" if self.refused else "runs without"
            return f"{row} {what} the changes of {self.layer}: {self.reason}; {self.remedy}"
        what = "fails" if self.refused else "is left out"
        return f"{row} {what}: {self.reason}; it comes from {self.layer}; {self.remedy}"


class Quarantine:
    """What was set aside at boot, and what stays so while it is unchanged.

    A `strict` one sets nothing aside: it finds what it would have, and the start is refused.
    """

    def __init__(self, composition: Composition, *, strict: bool = False) -> None:
        self.strict = strict
        self.stuck = False
        """Whether the body of some row was still running when it was given up."""
        self._composition = composition
        self._trusted = {row.id: row for row in walk_rows(composition.trusted_rows())}
        self._left_out: dict[tuple[str, str], Row] = {}
        self._reverted: dict[str, Row] = {}
        self._reports: list[Quarantined] = []
        self._rows: dict[tuple[str, str], Row] = {}

    @property
    def rows(self) -> tuple[Quarantined, ...]:
        """The rows that do not run as their layers want, in the order in which they failed."""
        return tuple(self._reports)

    def admits(self, row: Row) -> bool:
        """Whether `row` may run; one that was left out may once it is written otherwise."""
        held = self._left_out.get((row.id, row.origin))
        return held is None or not _same(held, row)

    def admitted(self, rows: Sequence[Row]) -> tuple[Row, ...]:
        """The rows without what was left out, bundle rows as they are without bad changes."""
        return tuple(self._admitted(row) for row in rows if self.admits(row))

    def remedies(self, row_ids: Sequence[str]) -> tuple[str, ...]:
        """What takes away those of the rows that are not the installation's."""
        rows = [row for row in walk_rows(self._composition.rows) if row.id in row_ids]
        layers = [(row, self._layer(row.origin)) for row in rows]
        return tuple(
            layer.remedy(row.id) for row, layer in layers if layer is not None and layer.remove
        )

    async def start(
        self, loader: Loader, *, timeout_ms: int | None = None
    ) -> tuple[RowFailure, ...]:
        """Mount the composition's rows, setting aside what is not the installation's.

        Returns the failures that remain: then the tree must not run. A row that is not active
        after `timeout_ms` milliseconds counts as failing.
        """

        async def rounds() -> tuple[RowFailure, ...]:
            while True:
                rows = self.admitted(self._composition.rows)
                failures = await loader.start_rows(rows, activation_timeout_ms=timeout_ms)
                if not failures:
                    return ()
                self.stuck = self.stuck or any(one.kind == "timeout" for one in failures)
                if not self._set_aside(failures, loader) or self.strict:
                    return failures

        # As one change: who waits for the tree to settle must not go on between two rounds.
        return await loader.exclusively(rounds, gone=())

    def _admitted(self, row: Row) -> Row:
        held = self._reverted.get(row.id)
        if held is not None and _same(held, row):
            return self._trusted[row.id]
        if row.children:
            children = self.admitted(row.children)
            if children != row.children:
                return msgspec.structs.replace(row, children=children)
        return row

    # -- deciding ---------------------------------------------------------------------------

    def _set_aside(self, failures: Sequence[RowFailure], loader: Loader) -> bool:
        """Take the smallest step that may mend this; False if there is none left."""
        direct = [failure for failure in failures if failure.kind != "wait"]
        waiting = [failure for failure in failures if failure.kind == "wait"]
        rows = walk_rows(self.admitted(self._composition.rows))
        # Of two with one id it is the later that fails.
        self._rows = {(row.id, row.origin): row for row in rows}
        groups = ([*direct, *waiting],) if self.strict else (direct, waiting)
        for group in groups:
            # All of a group at once: each further start costs a round.
            explained = [self._explain(failure, loader) for failure in group]
            if any(explained):
                return True
        worst = (direct or waiting)[0]
        reason = f"row {worst.entry_id!r} does not start otherwise ({failure_reason(worst)})"
        # A row that the user switched off is the likeliest to be missed.
        steps = (self._switch_on, self._revert, self._leave_out)
        for step in steps[:2] if self.strict else steps:
            taken = [step(row, reason) for row in rows]
            if any(taken):
                return True
        return False

    def _explain(self, failure: RowFailure, loader: Loader) -> bool:
        row, reason = self._row_of(failure), failure_reason(failure)
        if row is None:
            return False
        if row.id != failure.entry_id:
            reason = f"its row {failure.entry_id!r}: {reason}"
        stuck = failure.kind == "timeout"
        if self._leave_out(row, reason, stuck=stuck):
            return True
        if isinstance(failure.error, ServiceExistsError):
            service = failure.error.service
            holder = _holder(service, loader)
            taken = f"it provides {service!r}, as row {row.id!r} of {row.origin} does"
            if holder is not None and self._leave_out(holder, taken):
                return True
        if failure.kind == "wait" and not self._waits_by_change(row):
            return False
        return self._revert(row, reason, stuck=stuck)

    def _row_of(self, failure: RowFailure) -> Row | None:
        """The composed row that failed; for one inside an include, the include."""
        row = self._rows.get((failure.entry_id, failure.row.origin))
        if row is not None or ":" not in failure.entry_id:
            return row
        rows = self._rows.values()
        return next((row for row in rows if failure.entry_id.startswith(f"{row.id}:")), None)

    def _leave_out(self, row: Row, reason: str, *, stuck: bool = False) -> bool:
        layer = self._layer(row.origin)
        if layer is None or layer.trusted or not self.admits(row):
            return False
        self._left_out[row.id, row.origin] = row
        self._report(row, layer, reason, stuck=stuck)
        return True

    def _waits_by_change(self, row: Row) -> bool:
        """Whether a row may wait because it was changed: new configuration makes none wait."""
        trusted = self._trusted.get(row.id)
        return trusted is not None and any(
            getattr(trusted, field) != getattr(row, field)
            for field in ("name", "inject", "isolate")
        )

    def _switch_on(self, row: Row, reason: str) -> bool:
        trusted = self._trusted.get(row.id)
        switched_off = trusted is not None and trusted.disabled != row.disabled
        return switched_off and self._revert(row, reason)

    def _revert(self, row: Row, reason: str, *, stuck: bool = False) -> bool:
        if row.id not in self._trusted or row.id in self._reverted:
            return False
        changers = [name for name in row.patched_by if not self._composition.trusted(name)]
        layer = self._layer(changers[-1]) if changers else None
        if layer is None or not self._composition.trusted(row.origin):
            return False
        self._reverted[row.id] = row
        self._report(row, layer, reason, reverted=True, stuck=stuck)
        return True

    def _layer(self, name: str) -> Layer | None:
        return self._composition.layers.get(name)

    def _report(
        self, row: Row, layer: Layer, reason: str, *, stuck: bool, reverted: bool = False
    ) -> None:
        self._reports.append(
            Quarantined(
                entry_id=row.id,
                name=row.name,
                layer=layer.name,
                reason=reason,
                remedy=layer.remedy(row.id, what="them" if reverted else "it"),
                reverted=reverted,
                stuck=stuck,
                refused=self.strict,
            )
        )


def failure_reason(failure: RowFailure) -> str:
    """Why a row failed, in one line, with the place in its code if that raised."""
    if failure.kind == "wait":
        noun = "services" if len(failure.missing) > 1 else "service"
        return f"it waits for the {noun} {', '.join(failure.missing) or '(unknown)'}"
    error = failure.error
    if error is None:
        story = failure.message.removeprefix(
            f"loader entry {failure.entry_id} ({failure.row.name}) "
        )
        return f"it {story}"
    text = " ".join(str(error).split())
    if not isinstance(error, CordisError):
        text = ": ".join(filter(None, (type(error).__name__, text)))
    elif error.code != "PLUGIN_EXIT":
        return text
    return f"{text}{_place(error)}"


def _place(error: BaseException) -> str:
    """Where a plugin's code raised it."""
    if isinstance(error, CordisError) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, SyntaxError):
        return "" if error.filename is None else f" (at {error.filename}:{error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    places = [frame for frame in frames if not frame.filename.startswith("<")]
    return f" (at {places[-1].filename}:{places[-1].lineno})" if places else ""


def _holder(service: str, loader: Loader) -> Row | None:
    """The row whose plugin provides a service now."""
    for provided in loader.own.registry.services():
        if provided.name == service:
            entry = loader.locate(provided.fiber)
            return None if entry is None else entry.row
    return None


def _same(one: Row, other: Row) -> bool:
    """Whether two rows ask for the same, wherever they are written."""
    return all(
        getattr(one, field) == getattr(other, field)
        for field in ("name", "disabled", "inject", "isolate", "intercept", "config", "children")
    )
