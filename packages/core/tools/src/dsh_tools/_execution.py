"""One call as policies, wrappers and the body see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._errors import ToolError
from ._types import CallToken

if TYPE_CHECKING:
    from dsh_cordis import AbortSignal
    from dsh_llm import Message
    from dsh_lossless_json import FrozenJson
    from dsh_system_prompt import AgentRef

    from ._types import ToolCallRequest


class ToolExecution:
    """A running call. Everything but the signal of a wrapper is fixed.

    `replace_signal` is for `tools/execute` listeners; `defer_context` and `conclude_turn` are for
    the body. Outside those they raise `ToolError` with code `WRONG_STAGE`.
    """

    __slots__ = (
        "_concludes",
        "_deferred",
        "_in_body",
        "_signal",
        "_wrapping",
        "agent",
        "arguments",
        "call_id",
        "name",
        "parent",
        "root_call_id",
        "token",
    )
    call_id: str
    root_call_id: str
    """The model's call that this one serves; the same as `call_id` unless it is nested."""
    name: str
    arguments: FrozenJson
    """The converted arguments: what a policy judges is what the body gets."""
    agent: AgentRef | None
    parent: CallToken | None
    token: CallToken

    def __init__(self, request: ToolCallRequest, arguments: FrozenJson) -> None:
        fix = object.__setattr__
        fix(self, "call_id", request.call_id)
        fix(self, "root_call_id", request.root_call_id or request.call_id)
        fix(self, "name", request.name)
        fix(self, "arguments", arguments)
        fix(self, "agent", request.agent)
        fix(self, "parent", request.parent)
        fix(self, "token", CallToken())
        self._signal = request.signal
        self._wrapping = False
        self._in_body = False
        self._deferred: list[Message] = []
        self._concludes = False

    def __setattr__(self, name: str, value: object) -> None:
        # A policy that could rewrite the call would judge something else than what runs.
        if not name.startswith("_"):
            raise AttributeError(f"{name} of a call is fixed")
        object.__setattr__(self, name, value)

    @property
    def signal(self) -> AbortSignal:
        """Stops the call. The body's follows the caller's and every wrapper's."""
        return self._signal

    def replace_signal(self, signal: AbortSignal) -> None:
        """Give everything further in another signal; the caller's still reaches the body."""
        if not self._wrapping:
            self._wrong_stage("replace_signal", "a tools/execute listener")
        self._signal = signal

    def defer_context(self, message: Message) -> None:
        """Send `message` to the model after the result, in the next step."""
        if not self._in_body:
            self._wrong_stage("defer_context", "the tool's body")
        self._deferred.append(message)

    def conclude_turn(self) -> None:
        """End the turn after this batch of calls, if this one succeeds."""
        if not self._in_body:
            self._wrong_stage("conclude_turn", "the tool's body")
        self._concludes = True

    def _wrong_stage(self, method: str, owner: str) -> None:
        message = f"{method}() of call {self.call_id!r} is for {owner}, while it runs"
        raise ToolError(message, code="WRONG_STAGE")

    def __repr__(self) -> str:
        return f"ToolExecution({self.name!r}, {self.call_id!r})"
