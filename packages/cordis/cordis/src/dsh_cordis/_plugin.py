"""The forms a plugin may have, brought to one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import msgspec

from ._errors import CordisError
from ._internal import Internal
from ._keys import ServiceKey
from ._service import Service

if TYPE_CHECKING:
    from ._context import Context
    from ._effects import EffectResult
    from ._fiber import Fiber


Injected: TypeAlias = Iterable[ServiceKey[Any]] | Mapping[ServiceKey[Any], Mapping[str, object]]
"""What a plugin needs: keys, or keys with the settings that it has for each service."""

Injection: TypeAlias = dict[ServiceKey[Any], Mapping[str, object]]
"""The same, in one form; a key without settings has an empty mapping."""

_NO_SETTINGS: Final[Mapping[str, object]] = {}


class PluginRecord(msgspec.Struct, frozen=True):
    """A plugin: what it is called, needs, takes and does."""

    plugin: object
    name: str | None
    inject: Injection
    config: type | None
    run: Callable[[Context, Any], EffectResult]


def normalise(plugin: object) -> PluginRecord:
    """One record for a module or object with `apply`, a function, or a Service class.

    A module that defines `default` is that plugin. Raises CordisError for anything else.
    """
    if isinstance(plugin, ModuleType):
        return _module(plugin)
    if isinstance(plugin, type) and issubclass(plugin, Service):
        return _record(plugin, _service_body(plugin), plugin.name or plugin.__name__)
    return _object(plugin, is_class=isinstance(plugin, type))


def resolve_config(
    plugin: PluginRecord,
    fiber: Fiber,
    raw: object,
    interpolate: Callable[[Context, object], object] | None,
) -> Any:  # noqa: ANN401 - an instance of the plugin's own Config
    """The configuration of one activation: interpolated, offered to observers, validated."""
    if interpolate is not None:
        raw = interpolate(fiber.ctx, raw)
    if fiber.kernel.events.heard(Internal.CONFIG):
        value = raw
        raw = fiber.ctx.waterfall_sync(Internal.CONFIG, fiber, value, inner=lambda: value)
    if plugin.config is None:
        return raw
    from ._config import validate_config  # not needed by trees of plugins without Config

    kind: type[object] = plugin.config
    return validate_config(kind, raw, where=fiber.name)


def _module(module: ModuleType) -> PluginRecord:
    members = vars(module)
    if "default" in members:
        return normalise(members["default"])
    if callable(members.get("apply")):
        name = members.get("name") or module.__name__.rpartition(".")[2]
        return _record(module, members["apply"], name)
    raise _invalid(module)


def _object(form: Any, *, is_class: bool) -> PluginRecord:  # noqa: ANN401 - authors' data
    apply = getattr(form, "apply", None)
    name = getattr(form, "name", None)
    if callable(apply):
        return _record(form, apply, name)
    if callable(form) and not is_class:
        name = name or getattr(form, "__name__", None)
        return _record(form, form, None if name == "<lambda>" else name)
    raise _invalid(form)


def _invalid(plugin: object) -> CordisError:
    return CordisError(
        'invalid plugin, expect function or object with an "apply" method, '
        f"received {type(plugin).__name__}",
        code="INVALID_PLUGIN",
    )


def _record(plugin: object, run: Callable[..., Any], name: str | None) -> PluginRecord:
    inject = injection(getattr(plugin, "inject", ()), f"plugin {name or plugin!r}")
    return PluginRecord(plugin, name, inject, getattr(plugin, "Config", None), run)


def injection(inject: Injected, whose: str) -> Injection:
    """`inject` in one form. Raises CordisError, naming `whose` it is, if it holds no keys."""
    if not inject:
        return {}
    settings: Mapping[Any, Any] = (
        cast("Mapping[Any, Any]", inject) if isinstance(inject, Mapping) else {}
    )
    found: Injection = {}
    for key in inject:
        if not isinstance(key, ServiceKey):  # pyright: ignore[reportUnnecessaryIsInstance] - authors' data
            raise CordisError(
                f"{whose}: inject holds {key!r}, expected a ServiceKey", code="INVALID_PLUGIN"
            )
        found[key] = settings.get(key) or _NO_SETTINGS
    return found


def _service_body(cls: type[Service]) -> Callable[[Context, Any], EffectResult]:
    def body(ctx: Context, config: Any) -> EffectResult:  # noqa: ANN401 - whatever cls.Config makes
        service = cls(ctx, config)
        if cls.provides is not None:
            ctx.provide(cls.provides, service)
        return service.start()

    return body
