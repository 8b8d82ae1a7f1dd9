"""The content of a YAML text, or what is wrong with it."""

from typing import Any

import yaml

LARGEST = 100_000
"""Values of one text, with each alias counted as what it stands for."""


class NotYaml(ValueError):
    """A text that is no YAML, or none that can be used; `place` is its line and column, if known."""

    def __init__(self, problem: str, mark: yaml.Mark | None = None) -> None:
        self.problem = problem
        self.place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        super().__init__(problem + (f", at line {mark.line + 1}" if mark else ""))


def read_yaml(raw: bytes) -> tuple[yaml.Node | None, Any]:
    """The nodes with their places, and the values; raises `NotYaml`."""
    try:
        text = raw.decode()
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            _size(node, {}, set())
        return node, yaml.safe_load(text)
    except UnicodeDecodeError as error:
        raise NotYaml(f"it is not UTF-8: byte {error.start}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise NotYaml(f"it is not YAML: {error.problem or error}", mark) from None
    except RecursionError:
        raise NotYaml("it is nested too deeply") from None
    except NotYaml:
        raise
    except (
        yaml.YAMLError,
        ValueError,
    ) as error:  # a date that does not exist, or a number that is too long
        raise NotYaml(f"it is not YAML: {str(error).splitlines()[0]}") from None


def _size(node: yaml.Node, known: dict[int, int], above: set[int]) -> int:
    """How many values a node stands for; what contains itself, or too much, is an error."""
    if id(node) in above:
        raise NotYaml("an alias contains itself", node.start_mark)
    if (size := known.get(id(node))) is None:
        size, inside = 1, []
        if isinstance(node, yaml.MappingNode):
            inside = [each for pair in node.value for each in pair]
        elif isinstance(node, yaml.SequenceNode):
            inside = node.value
        above.add(id(node))
        for each in inside:
            size += _size(each, known, above)
        above.discard(id(node))
        known[id(node)] = size
    if size > LARGEST:
        raise NotYaml("its aliases stand for too many values", node.start_mark)
    return size
