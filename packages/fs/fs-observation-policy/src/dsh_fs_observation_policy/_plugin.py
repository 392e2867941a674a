"""Listeners that turn what an owner has seen into what its changes must find."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

from dsh_cordis import Context, Next, NoConfig
from dsh_fs import (
    FS_EDIT_INTENT,
    FS_OBSERVED,
    FS_WRITE_INTENT,
    CreateIfAbsent,
    Expected,
    FileIntent,
    FileKey,
    FileObserved,
    FileVersion,
    FsError,
    ReplaceIfVersion,
)

Config = NoConfig


class Observations:
    """What each owner last saw of each file. Not durable: a resumed session reads again."""

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[object, dict[FileKey, FileVersion | None]] = (
            WeakKeyDictionary()
        )

    def observe(self, observed: FileObserved) -> None:
        """Remember; an observation without an owner is nobody's knowledge."""
        if observed.owner is not None:
            self._seen.setdefault(observed.owner, {})[observed.target.key] = observed.version

    async def write_intent(self, intent: FileIntent, next: Next[Expected | None]) -> Expected:  # noqa: ARG002 - the first decider wins, so the rest is not asked
        """A file that was seen may be replaced as it was seen, any other only created."""
        version = self._seen_by(intent.owner).get(intent.target.key)
        return CreateIfAbsent() if version is None else ReplaceIfVersion(version)

    async def edit_intent(
        self,
        intent: FileIntent,
        next: Next[ReplaceIfVersion | None],  # noqa: ARG002 - see above
    ) -> ReplaceIfVersion:
        """Only what was seen can be edited, and only as it was seen."""
        seen, target = self._seen_by(intent.owner), intent.target
        if target.key not in seen:
            raise FsError(
                f"{target.display_path!r} was not read in this session", code="FS_NOT_OBSERVED"
            )
        version = seen[target.key]
        if version is None:
            raise FsError(f"{target.display_path!r} does not exist", code="FS_NOT_FOUND")
        return ReplaceIfVersion(version)

    def _seen_by(self, owner: object | None) -> Mapping[FileKey, FileVersion | None]:
        return {} if owner is None else self._seen.get(owner, {})


def apply(ctx: Context, config: NoConfig) -> None:  # noqa: ARG001 - the plugin form
    """Listen for as long as the plugin is loaded; unloading forgets everything."""
    observations = Observations()
    ctx.on(FS_OBSERVED, observations.observe)
    ctx.on(FS_WRITE_INTENT, observations.write_intent)
    ctx.on(FS_EDIT_INTENT, observations.edit_intent)
