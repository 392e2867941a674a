"""Which agent started the running chain of calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from ._errors import AgentError

if TYPE_CHECKING:
    from ._agent import Agent

T = TypeVar("T")

# Each entry names the scope that set it, so that two registries in one process do not mix.
_CURRENT: Final[ContextVar[tuple[object, Agent | None] | None]] = ContextVar(
    "dsh_agent_initiator", default=None
)


class InitiatorScope:
    """Carries an agent along an asynchronous chain of calls.

    It says who started the work; it proves neither that the agent still lives nor that it may.
    """

    def __init__(self) -> None:
        self._closed = False

    def close(self) -> None:
        """End with the registry. Chains that still run can go on reading."""
        self._closed = True

    def current(self) -> Agent | None:
        """The initiator, if any. Raises `AgentError` once closed, except inside a chain."""
        entry = _CURRENT.get()
        if entry is not None and entry[0] is self:
            return entry[1]
        if self._closed:
            raise AgentError("the agent registry was disposed", code="REGISTRY_DISPOSED")
        return None

    def run(self, agent: Agent | None, operation: Callable[[], T]) -> T:
        """Call `operation` with `agent` as initiator; a coroutine it returns stays inside too."""
        token = _CURRENT.set((self, agent))
        try:
            result = operation()
        finally:
            _CURRENT.reset(token)
        if not inspect.iscoroutine(result):
            return result
        return cast("T", self._carry(agent, cast("Coroutine[Any, Any, object]", result)))

    async def _carry(self, agent: Agent | None, coroutine: Coroutine[Any, Any, object]) -> object:
        token = _CURRENT.set((self, agent))
        try:
            return await coroutine
        finally:
            _CURRENT.reset(token)
