"""Running Python files as they are now."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType


class SourceLoader(SourceFileLoader):
    """Compiles a file each time that it is imported, and remembers what it read.

    The interpreter's bytecode cache tells files apart by size and whole seconds, so it would serve
    the old code after two edits within a second; and plugins beside a user's configuration should
    leave no cache folder there.
    """

    source: bytes = b""
    """The file's content when it was last run; empty before that."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - importlib's signature
        """The code of the file's present content. Raises OSError, SyntaxError, ValueError."""
        self.source = self.get_data(self.path)
        return self.source_to_code(self.source, self.path)
