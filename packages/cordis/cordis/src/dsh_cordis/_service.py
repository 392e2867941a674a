"""Services: plugins that provide a value whose methods know their caller.

A service read through a context is a view: an instance of a subclass generated once per service
class, which shares the service's `__dict__` and has a `ctx` of its own.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast

import msgspec

if TYPE_CHECKING:
    from ._context import Context
    from ._effects import EffectResult
    from ._keys import ServiceKey
    from ._plugin import Injected

T = TypeVar("T")


class Finding(msgspec.Struct, frozen=True):
    """One result of a service's look at itself."""

    level: Literal["ok", "warning", "error"]
    subject: str
    """What was looked at: a file, an account, a program."""
    message: str
    remedy: str = ""
    """What to do about it, best a command; empty if there is nothing to do."""


class Service:
    """Base of services, and a plugin: mounting builds it, provides it and runs `start`.

    State lives in ordinary instance attributes. `__slots__` and `functools.cached_property` are
    refused when the class is created, because a view cannot share the one and would leak its caller
    through the other.
    """

    provides: ClassVar[ServiceKey[Any] | None] = None
    """The key it is registered under; None for a plugin that is a class but no service."""
    inject: ClassVar[Injected] = ()
    """What must be there before it is built; a mapping also holds settings for each service."""
    Config: ClassVar[type | None] = None
    """A msgspec Struct or pydantic model for its configuration; None passes it raw."""
    name: ClassVar[str | None] = None
    """Its name in logs and errors; the class's name otherwise."""

    ctx: Context
    """The caller's: what a method registers through it is undone with the caller and has the
    caller's scope. Look-ups through it may use what the service itself injects."""
    own: Context
    """The context that the service was built with, whoever calls."""

    def __init__(self, ctx: Context, config: Any = None) -> None:  # noqa: ANN401, ARG002 - each subclass narrows it to its own Config
        self.ctx = ctx
        self.own = ctx

    def start(self) -> EffectResult:
        """Runs after the service is provided. May be async or a generator of disposers."""
        return None

    def expression_fields(self) -> Mapping[str, object]:
        """What a configuration expression sees as `ctx.<name>.<field>`."""
        return {}

    def diagnose(self) -> AsyncIterator[Finding] | Iterable[Finding]:
        """What is wrong or worth knowing, for `dsh doctor`; may be an async generator.

        It only looks: nothing is repaired, written or sent.
        """
        return ()

    def __init_subclass__(cls, **kwargs: Any) -> None:  # noqa: ANN401 - passed on to other bases
        super().__init_subclass__(**kwargs)
        if "_view_of" in cls.__dict__:
            return
        for base in cls.__mro__:
            members = vars(base)
            if base is not Service and members.get("__slots__"):
                raise TypeError(
                    f"service {cls.__qualname__}: {base.__qualname__} uses __slots__, "
                    "but views share the service's __dict__: use ordinary attributes"
                )
            for name, member in members.items():
                if isinstance(member, functools.cached_property):
                    raise TypeError(
                        f"service {cls.__qualname__}: {base.__qualname__}.{name} is a "
                        "cached_property, which would keep the first caller's view for everyone: "
                        "use a method or an attribute set in __init__"
                    )


def bind(service: Service, ctx: Context, provider: Context) -> Service:
    """A view of `service` for `ctx`; the service itself for the context that it was built with.

    Look-ups of its methods go through `provider`, the context that provided it.
    """
    if service.ctx is ctx:
        return service
    view = object.__new__(_view_class(type(service)))
    view.__dict__ = service.__dict__
    # Slots of the view's class: data descriptors, so they win over the shared dict.
    slots = cast("Any", view)
    slots.ctx = ctx.on_behalf(provider)
    slots._view_target = service  # noqa: SLF001 - the slot is declared by _view_class below
    return view


def unwrap(value: T) -> T:
    """The service behind a view, for identity; any other value as it is."""
    if "_view_of" in type(value).__dict__:
        return cast("Any", value)._view_target  # noqa: SLF001 - the slot of a view
    return value


def _view_class(cls: type[Service]) -> type[Service]:
    known = cls.__dict__.get("_view_class")
    if known is None:
        namespace = {
            "__slots__": ("ctx", "_view_target"),
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__doc__": cls.__doc__,
            "_view_of": cls,
        }
        metaclass: Any = type(cls)
        known = metaclass(cls.__name__, (cls,), namespace)
        type.__setattr__(cls, "_view_class", known)
    return known
