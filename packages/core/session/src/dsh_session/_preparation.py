"""A session that is not published yet, and who gives it back."""

from __future__ import annotations

from collections.abc import Callable

from ._session import Session


class SessionPreparation:
    """Owns one unpublished session until `dispose`, which does no harm after publication.

    A context manager: leaving it disposes.
    """

    __slots__ = ("_release", "session")
    session: Session

    def __init__(self, session: Session, release: Callable[[], object] | None = None) -> None:
        self.session = session
        self._release = release

    def dispose(self) -> None:
        """Tell the provider that the session is published or not wanted. Once; synchronous."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> SessionPreparation:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.dispose()
