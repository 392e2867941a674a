"""Entry tree of plugin rows: entry points, files, modules, expressions."""

from ._errors import LoaderError
from ._expr import Expr
from ._yaml import read_yaml

__all__ = ("Expr", "LoaderError", "read_yaml")
