"""A finished command as the model reads it."""

from __future__ import annotations

from ._value import BashArguments, BashValue, StreamValue


def render(args: BashArguments, value: BashValue) -> str:  # noqa: ARG001 - the shape of renderers
    """The output as it came, then marker lines; the last one is the status if it is not exit 0."""
    parts: list[str] = []
    if value.stdout.text:
        parts.append(value.stdout.text)
    if value.stderr.text:
        parts.append(f"[stderr]\n{value.stderr.text}")
    if not parts:
        parts.append("(no output)")
    parts += _markers(value)
    # A marker is found by the line break before it, so that one has to be there.
    text = parts[0]
    for part in parts[1:]:
        text += part if text.endswith("\n") else f"\n{part}"
    return text


def _markers(value: BashValue) -> list[str]:
    markers = [
        *_truncation("output", value.stdout),
        *_truncation("stderr", value.stderr),
    ]
    if value.left_running:
        markers.append("[still running: processes that this command started]")
    if value.timed_out:
        markers.append(f"[timed out after {value.timeout_ms:.0f}ms]")
    if value.signal is not None:
        markers.append(f"[killed by signal: {value.signal}]")
    elif value.exit_code:
        markers.append(f"[exit code: {value.exit_code}]")
    return markers


def _truncation(name: str, stream: StreamValue) -> list[str]:
    if not stream.truncated:
        return []
    return [f"[{name} truncated; full output: {stream.spill_path or '(unavailable)'}]"]
