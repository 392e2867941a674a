"""Tools: what a model may call, and what then runs."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from dsh_llm import ContentBlock, TextBlock, ToolSchema
from dsh_lossless_json import encode

from ._codec import Arguments, Output
from ._errors import ToolError
from ._signature import return_type

if TYPE_CHECKING:
    from dsh_lossless_json import FrozenJson

    from ._execution import ToolExecution
    from ._types import ToolOutcome

Rendered: TypeAlias = "str | Sequence[ContentBlock] | None"
"""Content for the model; None leaves it to the default, or as it is in `finalize_content`."""


class Execute(Protocol):
    """A tool's body: converted arguments and the call, to the canonical value."""

    def __call__(self, args: Any, execution: ToolExecution, /) -> Awaitable[object]: ...  # noqa: ANN401 - the tool's own type


_NAME: Final = re.compile("[a-zA-Z0-9_-]{1,64}")
"""What every provider takes as a function name."""

NO_OUTPUT: Final = "(no output)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """A tool. Made by `define_tool` or `@tool`; one definition may be registered many times."""

    name: str
    description: str
    arguments: Arguments
    output: Output
    execute: Execute
    render: Callable[[Any, Any], Rendered] | None = None
    """Arguments and value to content; pure. Text as it is and JSON for the rest if None."""
    presentation_meta: Callable[[Any, Any], object] | None = None
    """Arguments and value to JSON that presentations need; pure."""
    is_concurrency_safe: bool | Callable[[Any], bool] = False
    """Whether a call may overlap others; only exactly True does. Pure."""
    timeout_ms: float | None = None
    """How long a body should take at most; a policy's to enforce, never sent to the model."""
    finalize_content: Callable[[ToolExecution, ToolOutcome], Rendered] | None = None
    """The last word on the content of every outcome, failures of the pipeline included."""
    schema: ToolSchema = field(init=False)
    """What the model sees."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            message = f"a tool cannot be named {self.name!r}: use 1 to 64 of A-Z a-z 0-9 _ -"
            raise ToolError(message, code="INVALID_DEFINITION")
        if self.timeout_ms is not None and not (
            math.isfinite(self.timeout_ms) and self.timeout_ms > 0
        ):
            message = f"tool {self.name!r}: timeout_ms must be positive, got {self.timeout_ms!r}"
            raise ToolError(message, code="INVALID_DEFINITION")
        schema = ToolSchema(self.name, self.description, self.arguments.schema)
        object.__setattr__(self, "schema", schema)

    def content(self, args: Any, value: Any, plain: FrozenJson) -> Sequence[ContentBlock]:  # noqa: ANN401 - the tool's own types
        """What the model reads of a success; `plain` is `value` as JSON."""
        rendered = None if self.render is None else self.render(args, value)
        return as_blocks(rendered if rendered is not None else _default_text(plain))


def as_blocks(rendered: str | Sequence[ContentBlock]) -> Sequence[ContentBlock]:
    """Text as one block, blocks as they are."""
    return (TextBlock(rendered),) if isinstance(rendered, str) else rendered


def _default_text(value: FrozenJson) -> str:
    if value is None or value == "":
        return NO_OUTPUT
    return value if isinstance(value, str) else encode(value).decode()


def define_tool(
    *,
    name: str,
    description: str,
    params: type | dict[str, object],
    execute: Execute,
    render: Callable[[Any, Any], Rendered] | None = None,
    output: object = None,
    presentation_meta: Callable[[Any, Any], object] | None = None,
    is_concurrency_safe: bool | Callable[[Any], bool] = False,
    timeout_ms: float | None = None,
    finalize_content: Callable[[ToolExecution, ToolOutcome], Rendered] | None = None,
) -> ToolDefinition:
    """A tool whose parameters are `params` and whose body is `execute`.

    `params` is a Struct, a dataclass, a pydantic model, or a JSON schema (the body then gets the
    frozen object). `output` is the type of the value, or its JSON schema; None takes the return
    annotation of `execute`, and any JSON value where there is none. Raises `ToolError`
    `INVALID_DEFINITION` and `ToolSchemaError`.
    """
    kind = return_type(execute) if output is None else output
    return ToolDefinition(
        name=name,
        description=description,
        arguments=Arguments(params),
        output=Output(kind),
        execute=execute,
        render=render,
        presentation_meta=presentation_meta,
        is_concurrency_safe=is_concurrency_safe,
        timeout_ms=timeout_ms,
        finalize_content=finalize_content,
    )
