"""The service: run a command in a fresh shell."""

from __future__ import annotations

from abc import ABC, abstractmethod

from dsh_cordis import CordisError, Service, ServiceKey

from ._records import ShellRequest, ShellResult, ShellSpec

SHELL = ServiceKey["Shell"]("shell")


class ShellError(CordisError):
    """A command could not be run at all. Code: `INVALID_SHELL_REQUEST`."""


class Shell(Service, ABC):
    """Runs each command in a shell of its own: no state survives a call."""

    provides = SHELL
    sandbox_mode: str | None = None
    """What confines the commands; None: nothing does, they have the user's own rights."""

    @abstractmethod
    def resolve(self, request: ShellRequest) -> ShellSpec:
        """Fill what `request` leaves open and bound what it asks. Raises `ShellError`."""

    @abstractmethod
    async def run(self, spec: ShellSpec) -> ShellResult:
        """Run to the end. Raises `SubprocessError` only if nothing could be started."""

    @property
    @abstractmethod
    def default_timeout_ms(self) -> float:
        """Of a request that names none."""

    @property
    @abstractmethod
    def max_timeout_ms(self) -> float:
        """Longer requests are cut to this."""
