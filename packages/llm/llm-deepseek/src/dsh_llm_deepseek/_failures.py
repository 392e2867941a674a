"""What went wrong between here and the provider, in the product's codes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec
from dsh_llm import LlmError, is_context_overflow, is_quota
from dsh_lossless_json import repaired
from msgspec import UNSET

MAX_BODY_BYTES: Final = 65_536
"""Of an error response; the rest is not read."""
_SHOWN: Final = 500
_CUT: Final = "…"
_TELLING: Final = 4
"""Characters of a key that say something about it."""
_CODES: Final = {
    "AUTH": ("authentication", "invalid_api_key", "permission"),
    "RATE_LIMIT": ("rate_limit", "too_many_requests"),
    "INVALID_REQUEST": ("invalid_request", "invalid_parameter"),
}


def http_error(
    status: int, headers: Mapping[str, str], body: bytes, *, api_key_env: str
) -> LlmError:
    """The failure that a response other than 200 tells."""
    message, facts = _read(body)
    message = message or _unexplained(status, headers.get("location"))
    code = _status_code(status, facts)
    if code == "AUTH":
        message = f"{message} (the key in {api_key_env} was refused)"
    return LlmError(
        message,
        code=code,
        status=status if 100 <= status <= 599 else None,
        provider_retry_after_ms=_retry_after_ms(headers.get("retry-after")),
        request_id=request_id(headers),
    )


def stream_error(error: object) -> LlmError:
    """The failure that an `error` object inside a successful response tells."""
    message, facts = _described(error)
    status = _embedded_status(error)
    code = _status_code(status, facts) if status else _text_code(facts)
    return LlmError(
        message or "the provider reported an error inside the stream", code=code, status=status
    )


def body_error(body: bytes) -> LlmError:
    """The failure of a successful response that is no event stream."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = None
    if isinstance(value, dict) and (error := cast("dict[str, Any]", value).get("error")):
        return stream_error(error)
    shown = _shortened(body.decode("utf-8", "replace"))
    return LlmError(
        f"the provider answered with something other than an event stream: {shown!r}",
        code="MALFORMED_RESPONSE",
    )


def redacted(error: LlmError, key: str) -> LlmError:
    """`error` without `key`: some servers repeat in their answer what they refuse."""
    failure = error.failure
    without = msgspec.structs.replace(
        failure,
        message=_without(failure.message, key),
        code="MALFORMED_RESPONSE" if key and key.upper() in failure.code else failure.code,
        request_id=_without(failure.request_id or "", key) or UNSET,
    )
    return error if without == failure else LlmError.of(without)


def request_id(headers: Mapping[str, str]) -> str | None:
    """The provider's own id of the request, for its support."""
    return headers.get("x-request-id") or headers.get("x-deepseek-request-id") or None


def _without(text: str, key: str) -> str:
    if not key:
        return text
    text = text.replace(key, "***")
    # A text that was cut short may end in the middle of it.
    for length in range(min(len(key), _SHOWN), _TELLING - 1, -1):
        text = text.replace(key[:length] + _CUT, "***" + _CUT)
    return text


def _unexplained(status: int, location: str | None) -> str:
    if not location or not 300 <= status <= 399:
        return f"the provider answered with HTTP status {status}"
    # Not its query: that is where redirects carry secrets.
    target = _shortened(location.partition("?")[0])
    return (
        f"the provider redirects to {target} (HTTP status {status}), which is not followed with a "
        "key: set the base URL to the place that answers"
    )


def _status_code(status: int, facts: str) -> str:
    if status in (401, 403):
        return "AUTH"
    if status == 413:
        return "INVALID_REQUEST"
    if status == 402 or (status < 500 and is_quota(facts)):
        return "QUOTA"
    if status == 429:
        return "RATE_LIMIT"
    if status in (400, 422):
        return "CONTEXT_WINDOW_EXCEEDED" if is_context_overflow(facts) else "INVALID_REQUEST"
    return "SERVER" if status >= 500 else f"HTTP_{status}"


def _text_code(facts: str) -> str:
    if is_quota(facts):
        return "QUOTA"
    if is_context_overflow(facts):
        return "CONTEXT_WINDOW_EXCEEDED"
    lowered = facts.lower()
    for code, words in _CODES.items():
        if any(word in lowered for word in words):
            return code
    # Nothing in the request was refused before the stream began, so the server is to blame.
    return "SERVER"


def _read(body: bytes) -> tuple[str, str]:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        text = _shortened(body.decode("utf-8", "replace"))
        return text, text
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return _described(fields.get("error") or fields)


def _described(error: object) -> tuple[str, str]:
    """The message, and everything that says what kind of failure it is."""
    if isinstance(error, str):
        return _shortened(error), error
    fields = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    message = fields.get("message") or fields.get("detail") or ""
    message = message if isinstance(message, str) else str(message)
    words = (str(fields.get(key) or "") for key in ("code", "type"))
    return _shortened(message), " ".join((*words, message))


def _embedded_status(error: object) -> int | None:
    fields = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    for key in ("status", "code"):
        value = fields.get(key)
        number = int(value) if isinstance(value, str) and value.isdecimal() else value
        if isinstance(number, int) and 400 <= number <= 599:
            return number
    return None


def _shortened(text: str) -> str:
    text = repaired(" ".join(text.split()))
    return text if len(text) <= _SHOWN else text[: _SHOWN - len(_CUT)] + _CUT


def _retry_after_ms(value: str | None) -> float | None:
    """Milliseconds of a `Retry-After`: seconds or a date in the future; None for anything else."""
    if not value:
        return None
    text = value.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        wait_ms = float(text) * 1000
        return wait_ms if 0 < wait_ms < math.inf else None
    from email.utils import parsedate_to_datetime  # rare, and not cheap to import

    try:
        wait_ms = (parsedate_to_datetime(text).timestamp() - time.time()) * 1000
    except (ValueError, OverflowError):
        return None
    return wait_ms if wait_ms > 0 else None
