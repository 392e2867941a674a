"""What this package raises."""

from __future__ import annotations

from dsh_cordis import CordisError


class SystemPromptError(CordisError):
    """A prompt registration, assembly or text is unusable; codes are in the README."""
