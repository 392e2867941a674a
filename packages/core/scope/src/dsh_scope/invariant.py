"""Opt-in check: what happens to an agent is told to the scope of that agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

from dsh_cordis import Context, Internal, NoConfig, Target
from dsh_invariants import INVARIANTS, Fail

from ._chain import ScopeTarget, scope_target

name = "dsh-scope/invariant"
inject = (INVARIANTS,)
Config = NoConfig

# Names, because the packages that declare these keys stand on this one.
_SUBJECTS: Final[Mapping[str, Callable[[Any], object]]] = {
    **dict.fromkeys(
        (
            "agent/created",
            "agent/disposed",
            "agent/error",
            "agent/inbox/claimed",
            "agent/inbox/discarded",
            "agent/inbox/inserted",
            "agent/pre-step",
            "agent/request",
            "agent/request-error",
            "agent/session-start",
            "agent/status",
            "agent/turn-stopping",
            "tools/execute",
            "tools/pre-execute",
        ),
        attrgetter("agent"),
    ),
    **dict.fromkeys(("tools/post-execute", "tools/result"), attrgetter("execution.agent")),
    "system-prompt/assemble": attrgetter("context.scope"),
}
"""Whose scope each event belongs to, from its payload; None is nobody's."""

_ADDRESSED: Final = frozenset(
    ("session/created", "session/disposed", "session/event", "session/flush")
)
"""Events of some scope that their payload does not tell."""


async def apply(ctx: Context, _config: NoConfig) -> None:
    """Register the check for as long as this row is mounted."""
    await ctx[INVARIANTS].register("dsh-scope", _install)


def _install(ctx: Context, fail: Fail) -> None:
    def check(_mode: str, name: str, args: tuple[Any, ...], target: Target | None) -> None:
        subject_of = _SUBJECTS.get(name)
        if subject_of is None and name not in _ADDRESSED:
            return
        if not isinstance(target, ScopeTarget):
            fail(f"{name} is dispatched to {target!r}, not to a scope")
        if subject_of is not None:
            subject = subject_of(args[0])
            if target is not scope_target(subject):
                fail(f"{name} is dispatched to another scope than that of {subject!r}")

    ctx.on(Internal.DISPATCH, check)
