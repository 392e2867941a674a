"""How a contained failure reaches the log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ._errors import CordisError

if TYPE_CHECKING:
    from ._fiber import Fiber

log = logging.getLogger("dsh.cordis")


def log_failure(owner: Fiber, what: str, error: BaseException) -> None:
    """Log a contained failure under the fiber it belongs to.

    Errors of the product explain themselves; anything else comes with its traceback.
    """
    expected = isinstance(error, CordisError)
    log.error(
        "%s of %r failed: %s",
        what,
        owner.name,
        error if expected else shown(error),
        exc_info=None if expected else error,
        extra={"fiber": owner.name},
    )


def shown(error: BaseException) -> str:
    """Its repr, whatever its class is like."""
    try:
        return repr(error)
    except Exception:  # noqa: BLE001 - containment: a plugin's own class, and who reports goes on
        return f"<{type(error).__name__}, whose repr failed>"
