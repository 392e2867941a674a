"""The error base of the whole product."""

from __future__ import annotations


class CordisError(Exception):
    """A failure with a stable code. Every package's own error class derives from it.

    Callers branch on the class or on `code`, never on the text. The message says what was asked,
    what was found and what to do about it, and never holds a secret.
    """

    code: str
    """UPPER_SNAKE, stable across versions, listed in the README of the package that raises it."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class ConfigError(CordisError):
    """A plugin's configuration is unusable; the message names the key and what it should be."""

    def __init__(self, message: str, *, code: str = "INVALID_CONFIG") -> None:
        super().__init__(message, code=code)


class ServiceAccessError(CordisError, AttributeError):
    """A context has no right to a service now: not injected, or its provider is not active."""


class ServiceExistsError(CordisError):
    """A realm has a service of that name already."""

    service: str
    owner: str
    """Name of the plugin that provides it."""

    def __init__(self, service: str, owner: str) -> None:
        super().__init__(
            f'service "{service}" has been registered at <{owner}>', code="SERVICE_EXISTS"
        )
        self.service = service
        self.owner = owner
