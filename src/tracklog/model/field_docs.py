"""The docstrings below the fields of a class: their descriptions in published schemas."""

import ast
import inspect
from functools import cache
from itertools import pairwise
from types import ModuleType


def field_docs(kind: type, root: type = object) -> dict[str, str]:
    """The docstring of each field of a class; "" where it has none, or no source code to read.

    The fields of its base classes are included, as far as those are below `root`.
    """
    docs: dict[str, str] = {}
    for each in reversed(kind.__mro__[: kind.__mro__.index(root)]):
        docs |= dict.fromkeys(inspect.get_annotations(each), "")
        module = inspect.getmodule(each)
        if module is not None:
            docs |= _classes(module).get(each.__qualname__, {})
    return docs


@cache
def _classes(module: ModuleType) -> dict[str, dict[str, str]]:
    """The docstrings of the fields of each class in a module, which is read only once."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError):
        return {}
    return {node.name: _docs(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _docs(node: ast.ClassDef) -> dict[str, str]:
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(node.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }
