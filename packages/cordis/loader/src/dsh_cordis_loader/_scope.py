"""What expressions of rows can see, and how a row's configuration is filled in."""

from __future__ import annotations

import json
import os.path
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from dsh_cordis import Service, ServiceKey

from ._entry_points import EntryPoints
from ._errors import LoaderError
from ._expr import Expr

if TYPE_CHECKING:
    from dsh_cordis import Context

    from ._rows import Row


_PLAIN: Final = frozenset((str, int, bool, float, type(None)))


class LoaderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where a loader takes names, variables and paths from."""

    entry_points: EntryPoints | None = None
    """The installation; None scans `sys.path` on first use."""
    environment: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """What `env` shows."""
    home: str | None = None
    """What `dsh_home()` starts from; None makes that function an error."""
    cwd: str = "."
    """What `cwd` shows, absolute."""

    def __repr__(self) -> str:
        # Values of variables are secrets as often as not.
        return f"LoaderOptions({len(self.environment)} variables, home={self.home!r})"


class ExpressionScope:
    """Names and functions of one loader's expressions."""

    def __init__(self, options: LoaderOptions) -> None:
        self._home = options.home
        self._environment = options.environment
        self._names: dict[str, object] = {
            "env": options.environment,
            "platform": sys.platform,
            "cwd": options.cwd,
        }
        self._functions: dict[str, Callable[..., object]] = {
            "coalesce": _coalesce,
            "dsh_home": self._dsh_home,
            "env.get": self._variable,
            "int": _integer,
            "json": _from_json,
        }

    def disabled(self, row: Row) -> bool:
        """Whether the row is switched off now. Raises LoaderError (`INVALID_EXPRESSION`)."""
        if not isinstance(row.disabled, Expr):
            return row.disabled
        return bool(self._evaluate(row.disabled, self._names, row.id, "disabled"))

    def fill(self, row: Row, ctx: Context, services: Iterable[str], raw: object) -> object:
        """`raw` with every expression replaced by its value, as fresh containers.

        An expression that yields None removes its key from a mapping and stays None in a list.
        Raises LoaderError (`INVALID_EXPRESSION`) naming row, key and expression.
        """
        names = {**self._names, "ctx": _ServicesView(ctx, services)}
        return self._fill(raw, names, row.id, "config")

    def _fill(self, value: object, names: Mapping[str, object], row_id: str, path: str) -> object:
        if type(value) in _PLAIN:  # most values, and the checks below are slow ones
            return value
        if isinstance(value, Expr):
            return self._evaluate(value, names, row_id, path)
        if isinstance(value, list):
            return [
                self._fill(item, names, row_id, f"{path}[{index}]")
                for index, item in enumerate(cast("list[object]", value))
            ]
        if type(value) is not dict and not isinstance(value, Mapping):
            return value
        result: dict[str, object] = {}
        for key, item in cast("Mapping[str, object]", value).items():
            filled = self._fill(item, names, row_id, f"{path}.{key}")
            if filled is not None or not isinstance(item, Expr):
                result[key] = filled
        return result

    def _evaluate(
        self, expression: Expr, names: Mapping[str, object], row_id: str, path: str
    ) -> object:
        try:
            return expression.evaluate(names, self._functions)
        except LoaderError as error:
            raise LoaderError(
                f"row {row_id!r}, {path}: !expr {expression.text!r}: {error}",
                code="INVALID_EXPRESSION",
            ) from None

    def _variable(self, name: str, default: object = None) -> object:
        return self._environment.get(name, default)

    def _dsh_home(self, *parts: object) -> str:
        if self._home is None:
            raise LoaderError("dsh_home() is not known here", code="INVALID_EXPRESSION")
        for part in parts:
            if not isinstance(part, str) or os.path.isabs(part):
                raise LoaderError(
                    f"dsh_home() takes relative path parts, got {part!r}", code="INVALID_EXPRESSION"
                )
        return os.path.join(self._home, *cast("tuple[str, ...]", parts))


class _ServicesView:
    """`ctx` in an expression: the services that the row injects, read-only."""

    __slots__ = ("_ctx", "_services")

    def __init__(self, ctx: Context, services: Iterable[str]) -> None:
        self._ctx = ctx
        self._services = tuple(services)

    def expression_field(self, name: str) -> object:
        if name not in self._services:
            known = ", ".join(sorted(self._services)) or "nothing"
            raise LoaderError(
                f"unknown name 'ctx.{name}': the row injects {known}; add it to `inject`",
                code="INVALID_EXPRESSION",
            )
        service: Any = self._ctx[ServiceKey[Any](name)]
        if isinstance(service, Service):
            return dict(service.expression_fields())
        if isinstance(service, Mapping):
            return dict(cast("Mapping[str, object]", service))
        publish = getattr(service, "expression_fields", None)
        if callable(publish):
            return dict(cast("Mapping[str, object]", publish()))
        raise LoaderError(
            f"service {name!r} publishes nothing for expressions", code="INVALID_EXPRESSION"
        )


def _coalesce(*values: object) -> object:
    return next((value for value in values if value is not None), None)


def _from_json(text: object) -> object:
    if text is None:
        return None
    if not isinstance(text, str):
        raise LoaderError(
            f"json() takes text, got {type(text).__name__}", code="INVALID_EXPRESSION"
        )
    return json.loads(text)


def _integer(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, float) and not value.is_integer():
        raise LoaderError(f"int({value!r}) would lose a fraction", code="INVALID_EXPRESSION")
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise LoaderError(
            f"int() takes text or a number, got {type(value).__name__}", code="INVALID_EXPRESSION"
        )
    return int(value)
