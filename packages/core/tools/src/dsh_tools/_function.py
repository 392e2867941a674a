"""The `@tool` decorator."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, overload

from ._codec import Arguments, Output
from ._definition import ToolDefinition
from ._errors import ToolError
from ._signature import Signature, read_signature

if TYPE_CHECKING:
    from ._definition import Rendered
    from ._execution import ToolExecution


@overload
def tool(function: Callable[..., Awaitable[object]], /) -> ToolDefinition: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    concurrency_safe: bool = False,
    timeout_ms: float | None = None,
    render: Callable[[Any, Any], Rendered] | None = None,
) -> Callable[[Callable[..., Awaitable[object]]], ToolDefinition]: ...
def tool(
    function: Callable[..., Awaitable[object]] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    concurrency_safe: bool = False,
    timeout_ms: float | None = None,
    render: Callable[[Any, Any], Rendered] | None = None,
) -> Any:
    """Make a tool of a typed async function.

    Name, description (the docstring), parameters and output type are the function's. A parameter
    of type `ToolExecution` gets the call. `Annotated[int, msgspec.Meta(ge=1, description="...")]`
    adds bounds and descriptions, which the model sees and its arguments are held to. `render`
    gets the parameters as a Struct. Raises `ToolError` `INVALID_DEFINITION` and `ToolSchemaError`.
    """

    def define(body: Callable[..., Awaitable[object]]) -> ToolDefinition:
        signature = read_signature(body)
        text = description or inspect.getdoc(body)
        title = name or body.__name__
        if not text:
            message = f"tool function {title!r} needs a docstring: it tells the model what it does"
            raise ToolError(message, code="INVALID_DEFINITION")
        return ToolDefinition(
            name=title,
            description=text,
            arguments=Arguments(signature.params),
            output=Output(signature.returns),
            execute=_by_name(body, signature),
            render=render,
            is_concurrency_safe=concurrency_safe,
            timeout_ms=timeout_ms,
        )

    return define if function is None else define(function)


def _by_name(body: Callable[..., Awaitable[object]], signature: Signature) -> Any:  # noqa: ANN401 - a body
    names = signature.params.__struct_fields__

    def execute(args: object, execution: ToolExecution) -> Awaitable[object]:
        values = {name: getattr(args, name) for name in names}
        if signature.execution is not None:
            values[signature.execution] = execution
        return body(**values)

    return execute
