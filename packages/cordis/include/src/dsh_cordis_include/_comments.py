"""Comments on lines of their own: taken out before an edit, put back before what they stood above.

A round-trip parser ties such a comment to the value before it and loses it with that value; people
write it for what follows.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import yaml

Path: TypeAlias = tuple[object, ...]


class Comments:
    """The comment lines of one document."""

    text: str
    """The document without them."""

    def __init__(self, text: str) -> None:
        lines = text.splitlines(keepends=True)
        inside = _scalar_lines(text)
        places = _places(text)
        self._comments: list[tuple[str, list[Path]]] = []
        kept: list[str] = []
        for number, line in enumerate(lines):
            if number in inside or not line.lstrip().startswith("#"):
                kept.append(line)
                continue
            self._comments.append((line, [path for path, at in places.items() if at > number]))
        self.text = "".join(kept)

    def put_back(self, text: str) -> str:
        """The edited document with each comment above what it stood above, or what came next."""
        if not self._comments:
            return text
        places = _places(text)
        lines = text.splitlines(keepends=True)
        above: dict[int, list[str]] = {}
        for line, following in self._comments:
            number = next((places[path] for path in following if path in places), len(lines))
            above.setdefault(number, []).append(line)
        result: list[str] = []
        for number, line in enumerate([*lines, ""]):
            result.extend(above.get(number, ()))
            result.append(line)
        return "".join(result)


def composed(text: str) -> Any:  # noqa: ANN401 - the library has no types
    """The node tree of a document."""
    library: Any = yaml
    return library.compose(text.removeprefix("\ufeff"), Loader=yaml.CSafeLoader)


def _places(text: str) -> dict[Path, int]:
    """The line on which each key and list item begins, in the order of the document."""
    result: dict[Path, int] = {}

    def note(node: Any, path: Path) -> None:  # noqa: ANN401 - a node of the library
        if node.id == "mapping":
            for key, value in node.value:
                below = (*path, key.value)
                result.setdefault(below, key.start_mark.line)
                note(value, below)
        elif node.id == "sequence":
            for index, item in enumerate(node.value):
                below = (*path, _identity(item) or index)
                result.setdefault(below, item.start_mark.line)
                note(item, below)

    node = composed(text)
    if node is not None:
        note(node, ())
    return result


def _identity(node: Any) -> str | None:  # noqa: ANN401 - a node of the library
    """What a row is called, so that it is found again wherever it stands."""
    if node.id == "mapping":
        for key, value in node.value:
            if key.value == "id":
                return str(value.value)
    return None


def _scalar_lines(text: str) -> set[int]:
    """Lines inside text that runs over several: a `#` there is content."""
    library: Any = yaml
    result: set[int] = set()
    for token in library.scan(text.removeprefix("\ufeff"), Loader=yaml.CSafeLoader):
        if token.id == "<scalar>":
            # A block scalar ends where the next line begins, any other within its last line.
            end = token.end_mark
            result.update(range(token.start_mark.line + 1, end.line + (end.column > 0)))
    return result
