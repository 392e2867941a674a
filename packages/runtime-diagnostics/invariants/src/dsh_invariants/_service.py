"""Who checks what: companions register under their package's name, the configuration selects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, NoReturn, Protocol, TypeAlias

import msgspec
from dsh_cordis import Context, Disposer, EffectResult, Fiber, Service, ServiceKey
from msgspec import Meta

from ._errors import InvariantError

INVARIANTS = ServiceKey["Invariants"]("invariants")


class Fail(Protocol):
    """Raises the `InvariantError` of a broken promise; the message says which, and the data."""

    def __call__(self, message: str, /) -> NoReturn: ...


Installer: TypeAlias = Callable[[Context, Fail], EffectResult]
"""Sets the checks of one package up, like a plugin body; what it registers goes with them."""


class InvariantsConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which packages are checked. Patterns match anywhere in the name, case counts."""

    enabled: Annotated[bool, Meta(description="Whether anything is checked.")] = True
    package_allowlist: Annotated[
        tuple[str, ...],
        Meta(description="Regular expressions: only packages that one matches. Empty: all."),
    ] = ()
    package_blocklist: Annotated[
        tuple[str, ...],
        Meta(description="Regular expressions: no package that one matches, allowed or not."),
    ] = ()

    def __post_init__(self) -> None:
        _check(self.package_allowlist)
        _check(self.package_blocklist)


class Invariants(Service):
    """The registry of checks. Nothing is checked unless a companion of a package is mounted too."""

    provides = INVARIANTS
    Config = InvariantsConfig
    name = "dsh-invariants"

    def __init__(self, ctx: Context, config: InvariantsConfig) -> None:
        super().__init__(ctx, config)
        self._config = config
        self._packages: set[str] = set()

    def selects(self, package: str) -> bool:
        """Whether the configuration asks for the checks of that package."""
        config = self._config
        if not config.enabled or _matches(config.package_blocklist, package):
            return False
        return not config.package_allowlist or _matches(config.package_allowlist, package)

    async def register(
        self,
        package: str,
        installer: Installer,
        *,
        inject: Iterable[ServiceKey[Any]] = (),
    ) -> Disposer:
        """Run `installer(ctx, fail)` below the caller, as soon as what it injects is there.

        The name is taken even if the package is not selected, and then nothing runs. The result
        undoes both, as does the unload of the caller. Raises InvariantError
        (`ALREADY_REGISTERED`), and what the installer raises after undoing its part.
        """
        if package in self._packages:
            raise InvariantError(
                f'invariants: package "{package}" is already registered',
                package=package,
                code="ALREADY_REGISTERED",
            )
        ctx, keys = self.ctx, tuple(inject)
        mounted: list[Fiber] = []

        def setup() -> Iterator[Disposer]:
            self._packages.add(package)
            yield lambda: self._packages.discard(package)
            if self.selects(package):
                body = _body(installer, _failing(package))
                fiber = ctx.plugin(body, inject=keys, name=f"{package}/invariant")
                mounted.append(fiber)
                # By identity, so that the checks are gone before the name is free.
                assert fiber.mounted is not None
                yield fiber.mounted

        effect = ctx.effect(setup, f'invariants.register("{package}")')
        try:
            for fiber in mounted:
                await fiber
        except BaseException:
            undone = effect()
            if undone is not None:
                await undone
            raise
        return effect


def _body(installer: Installer, fail: Fail) -> Callable[[Context, object], EffectResult]:
    return lambda ctx, _config: installer(ctx, fail)


def _failing(package: str) -> Fail:
    def fail(message: str, /) -> NoReturn:
        raise InvariantError(f'invariant violated by "{package}": {message}', package=package)

    return fail


def _matches(patterns: tuple[str, ...], package: str) -> bool:
    return any(re.search(pattern, package) for pattern in patterns)


def _check(patterns: tuple[str, ...]) -> None:
    """Raises ValueError for a list that cannot mean what it says."""
    for pattern in patterns:
        if not pattern.strip():
            raise ValueError("a pattern is blank; leave it out")
        if pattern != pattern.strip():
            raise ValueError(f"the pattern {pattern!r} has blanks around it; take them off")
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    for pattern in patterns:
        if patterns.count(pattern) > 1:
            raise ValueError(f"the pattern {pattern!r} is there twice")
