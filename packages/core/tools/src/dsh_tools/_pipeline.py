"""One call through its stages.

The order is fixed: arguments, policy, wrappers around the body, post policy, finalizer, result
event. Whatever raises on the way becomes a failed outcome; only a cancellation of the caller's own
task passes through.
"""

from __future__ import annotations

import enum
import logging
from typing import TYPE_CHECKING, Any, Final

from dsh_cordis import AbortSignal, CordisError, FusedSignal
from dsh_lossless_json import LosslessJsonError, freeze, repaired
from msgspec import UNSET, structs

from ._definition import as_blocks
from ._errors import ToolError, ToolOutputError
from ._execution import ToolExecution
from ._failures import (
    aborted,
    aborted_before_dispatch,
    contained,
    failure,
    failure_of,
    unknown_tool,
)
from ._repair import repaired_blocks, repaired_messages
from ._types import (
    TOOLS_EXECUTE,
    TOOLS_POST_EXECUTE,
    TOOLS_PRE_EXECUTE,
    TOOLS_RESULT,
    Accept,
    Allow,
    Ask,
    Block,
    Deny,
    PostDecision,
    PreDecision,
    ToolExecuted,
    ToolFailure,
    ToolOutcome,
    ToolSuccess,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from dsh_cordis import Context
    from dsh_lossless_json import FrozenJson

    from ._definition import ToolDefinition
    from ._types import ToolCallRequest

_log = logging.getLogger("dsh.tools")

_ALLOW: Final = Allow()
_ACCEPT: Final = Accept()
_NOBODY_TO_ASK: Final = "this call needs approval, and nobody can be asked here"


async def _allow() -> PreDecision:
    return _ALLOW


async def _accept() -> PostDecision:
    return _ACCEPT


class _Stage(enum.Enum):
    NEW = enum.auto()
    READY = enum.auto()
    SETTLED = enum.auto()
    DONE = enum.auto()


class ToolRun:
    """A call between `ToolRegistry.begin` and its outcome.

    Await `prepare`, then `dispatch` if `prepare` gave True, then `finalize`: calls may overlap in
    `dispatch` and be prepared and finalized in the order of the model.
    """

    __slots__ = (
        "_args",
        "_caller",
        "_canonical",
        "_ctx",
        "_definition",
        "_entered",
        "_final",
        "_known",
        "_outcome",
        "_stage",
        "execution",
    )
    execution: ToolExecution

    def __init__(
        self,
        ctx: Context,
        request: ToolCallRequest,
        *,
        definition: ToolDefinition | None,
        known: Callable[[], Collection[str]],
        arguments: FrozenJson,
        args: object,
        refused: Exception | None,
    ) -> None:
        self._ctx = ctx
        self._definition = definition
        self._known = known
        self._args = args
        self._caller: AbortSignal = request.signal
        self.execution = ToolExecution(request, arguments)
        self._outcome: ToolOutcome | None = None
        self._final = False
        """Whether post policy is skipped: nothing was judged, or judging itself failed."""
        self._canonical: ToolOutcome | None = None
        """The outcome that the body gave: it needs no second validation."""
        self._entered = False
        self._stage = _Stage.NEW
        if refused is not None:
            self._settle(failure_of(refused), final=True)

    async def prepare(self) -> bool:
        """Ask policy. True means that the body may run: await `dispatch` next."""
        if self._outcome is not None:
            return False  # the arguments were refused
        if self._caller.aborted:
            self._settle(aborted_before_dispatch(), final=True)
            return False
        try:
            verdict = self._ctx.waterfall(TOOLS_PRE_EXECUTE, self.execution, inner=_allow)
            refusal = _refusal(await contained(verdict, "a tools/pre-execute listener"))
        except Exception as error:  # noqa: BLE001 - containment: a policy that raises refuses
            _report(error, "a tools/pre-execute listener raised for %r", self.execution)
            self._settle(failure_of(error), final=True)
            return False
        if refusal is None and self._caller.aborted:
            refusal = aborted_before_dispatch()
        if refusal is not None:
            self._settle(refusal)
            return False
        self._stage = _Stage.READY
        return True

    async def dispatch(self) -> None:
        """Run wrappers and body. Calls may overlap here; the outcome waits for `finalize`."""
        if self._stage is not _Stage.READY:
            raise ToolError("dispatch() needs a prepare() that gave True", code="WRONG_STAGE")
        self._stage = _Stage.SETTLED
        execution = self.execution
        execution._wrapping = True  # noqa: SLF001 - the pipeline is the other half of the call
        raised = False
        try:
            work = self._ctx.waterfall(TOOLS_EXECUTE, execution, inner=self._body)
            outcome = self._adopted(await contained(work, "a tools/execute listener"))
        except Exception as error:  # noqa: BLE001 - containment: a wrapper that raises fails the call
            _report(error, "a tools/execute listener raised for %r", execution)
            outcome = failure_of(error)
            raised = True
        finally:
            execution._wrapping = False  # noqa: SLF001 - as above
            execution._signal = self._caller  # noqa: SLF001 - post policy sees the caller's
        if execution._deferred:  # noqa: SLF001 - as above
            contexts = (*execution._deferred, *outcome.additional_contexts)  # noqa: SLF001 - as above
            outcome = structs.replace(outcome, additional_contexts=contexts)
        self._settle(self._unless_aborted(outcome), final=raised)

    async def finalize(self) -> ToolOutcome:
        """Post policy, the tool's finalizer and the result event; await it once, for every run."""
        outcome = self._outcome
        if outcome is None or self._stage is not _Stage.SETTLED:
            message = "finalize() comes once, after prepare() and the dispatch() that it asks for"
            raise ToolError(message, code="WRONG_STAGE")
        self._stage = _Stage.DONE
        if not self._final:
            outcome = await self._judged(outcome)
        outcome = self._finished(outcome)
        try:
            self._ctx.emit(TOOLS_RESULT, ToolExecuted(self.execution, outcome))
        except Exception as error:  # noqa: BLE001 - containment: the outcome stands whoever fails to hear it
            _report(error, "the result of %r could not be told", self.execution)
        return outcome

    def _settle(self, outcome: ToolOutcome, *, final: bool = False) -> None:
        self._outcome = outcome
        self._final = final
        self._stage = _Stage.SETTLED

    # Wrappers and body

    async def _body(self) -> ToolOutcome:
        execution = self.execution
        given = execution._signal  # noqa: SLF001 - the pipeline is the other half of the call
        fused: FusedSignal | None = None
        if given is not self._caller:
            # A wrapper's signal alone would cut the body off from its caller.
            fused = AbortSignal.any(given, self._caller)
            execution._signal = fused  # noqa: SLF001 - as above
        try:
            outcome = await self._entered_body()
        finally:
            execution._signal = given  # noqa: SLF001 - as above
            if fused is not None:
                fused.release()
        self._canonical = outcome
        return outcome

    async def _entered_body(self) -> ToolOutcome:
        execution, definition = self.execution, self._definition
        if execution.signal.aborted:
            return aborted_before_dispatch()
        if definition is None:
            return failure_of(unknown_tool(execution.name, self._known()))
        self._entered = True
        execution._in_body = True  # noqa: SLF001 - the pipeline is the other half of the call
        try:
            work = definition.execute(self._args, execution)
            value = await contained(work, f"the tool {definition.name!r}")
        except Exception as error:  # noqa: BLE001 - containment: the model reads what failed
            _log.info("the tool %r failed", definition.name, exc_info=True)
            return failure_of(error)
        finally:
            execution._in_body = False  # noqa: SLF001 - as above
        try:
            return self._success(definition, value)
        except Exception as error:  # noqa: BLE001 - containment: a bad value or projector is the tool's
            _log.exception("the result of tool %r is unusable", definition.name)
            return failure_of(_as_output_error(error))

    def _success(self, definition: ToolDefinition, value: object) -> ToolSuccess:
        plain = definition.output.read(value)
        typed = definition.output.build(plain)
        meta: Any = UNSET
        content = repaired_blocks(definition.content(self._args, typed, plain))
        project = definition.presentation_meta
        if project is not None and self.execution.parent is None:
            meta = freeze(repaired(project(self._args, typed)), what="presentation meta")
        return ToolSuccess(
            value=plain,
            content=content,
            meta=meta,
            concludes_turn=self.execution._concludes,  # noqa: SLF001 - the pipeline is the other half of the call
        )

    def _adopted(self, outcome: ToolOutcome) -> ToolOutcome:
        """An outcome that a wrapper made is held to what a body's is."""
        if outcome is self._canonical:
            return outcome
        if isinstance(outcome, ToolFailure):
            return outcome
        if not isinstance(outcome, ToolSuccess):  # pyright: ignore[reportUnnecessaryIsInstance] - a listener's word
            kind = type(outcome).__name__
            raise ToolError(f"a tools/execute listener gave a {kind}, not an outcome")
        if self._definition is None:
            return outcome
        return structs.replace(outcome, value=self._definition.output.read(outcome.value))

    def _unless_aborted(self, outcome: ToolOutcome) -> ToolOutcome:
        if outcome.is_error or not self._caller.aborted:
            return outcome
        if self._entered:
            return aborted(outcome.additional_contexts)
        return aborted_before_dispatch()

    # Post policy and the end

    async def _judged(self, outcome: ToolOutcome) -> ToolOutcome:
        executed = ToolExecuted(self.execution, outcome)
        try:
            verdict = self._ctx.waterfall(TOOLS_POST_EXECUTE, executed, inner=_accept)
            decision = await contained(verdict, "a tools/post-execute listener")
            if decision is not _ACCEPT:
                outcome = self._decided(outcome, decision)
        except Exception as error:  # noqa: BLE001 - containment: a policy that raises fails the call
            _report(error, "post policy failed for %r", self.execution)
            contexts = outcome.additional_contexts
            return structs.replace(failure_of(error), additional_contexts=contexts)
        return self._unless_aborted(outcome)

    def _decided(self, outcome: ToolOutcome, decision: PostDecision) -> ToolOutcome:
        if isinstance(decision, Block):
            contexts = tuple(decision.additional_contexts)
            return structs.replace(failure(decision.feedback), additional_contexts=contexts)
        if not isinstance(decision, Accept):  # pyright: ignore[reportUnnecessaryIsInstance] - a listener's word
            kind = type(decision).__name__
            raise ToolError(f"a tools/post-execute listener gave a {kind}, not a decision")
        if decision.value is not UNSET:
            outcome = self._revalued(outcome, decision)
        elif decision.content is not UNSET:
            outcome = structs.replace(outcome, content=tuple(decision.content))
        contexts = (*outcome.additional_contexts, *decision.additional_contexts)
        return structs.replace(outcome, additional_contexts=contexts)

    def _revalued(self, outcome: ToolOutcome, decision: Accept) -> ToolOutcome:
        if decision.content is not UNSET:
            raise ToolError("a tools/post-execute listener gave both content and value")
        if outcome.is_error or self._definition is None:
            raise ToolError("a tools/post-execute listener gave a value to a failed call")
        try:
            made = self._success(self._definition, decision.value)
        except Exception as error:
            raise _as_output_error(error) from error
        return structs.replace(outcome, value=made.value, content=made.content, meta=made.meta)

    def _finished(self, outcome: ToolOutcome) -> ToolOutcome:
        try:
            outcome = _materialized(outcome)
        except Exception as error:  # noqa: BLE001 - containment: what listeners made is unusable
            _log.exception("the outcome of %r is unusable", self.execution)
            outcome = failure_of(error)
        finalizer = self._definition.finalize_content if self._definition is not None else None
        if finalizer is None:
            return outcome
        try:
            content = finalizer(self.execution, outcome)
            if content is not None:
                outcome = structs.replace(outcome, content=repaired_blocks(as_blocks(content)))
        except Exception as error:  # noqa: BLE001 - containment: the tool's last word is unusable
            _log.exception("the finalizer of tool %r raised", self.execution.name)
            outcome = failure_of(error)
        return outcome


def _report(error: Exception, message: str, *args: object) -> None:
    """Log what a listener raised: our own errors are its way to refuse, all others are bugs."""
    level = logging.INFO if isinstance(error, CordisError) else logging.ERROR
    _log.log(level, message, *args, exc_info=error)


def _refusal(decision: PreDecision) -> ToolFailure | None:
    if isinstance(decision, Allow):
        return None
    if isinstance(decision, Deny):
        return failure(decision.reason)
    if isinstance(decision, Ask):  # pyright: ignore[reportUnnecessaryIsInstance] - a listener's word
        return failure(decision.reason or _NOBODY_TO_ASK)
    raise ToolError(
        f"a tools/pre-execute listener gave a {type(decision).__name__}, not a decision"
    )


def _as_output_error(error: Exception) -> ToolOutputError:
    if isinstance(error, ToolOutputError):
        return error
    return ToolOutputError((str(error) or type(error).__name__,))


def _materialized(outcome: ToolOutcome) -> ToolOutcome:
    """Listeners may have put anything in: text is repaired, JSON frozen, the rest refused."""
    content = repaired_blocks(outcome.content)
    contexts = repaired_messages(outcome.additional_contexts)
    meta = outcome.meta
    if meta is not UNSET:
        try:
            meta = freeze(meta, what="presentation meta")
        except LosslessJsonError:
            meta = freeze(repaired(meta), what="presentation meta")
    return structs.replace(outcome, content=content, additional_contexts=contexts, meta=meta)
