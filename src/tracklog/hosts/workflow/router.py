"""The router: the only place where tools are called, and where the calls are recorded.

AWF-70: a tool gets its input and nothing else; it has no access to the recorder.
"""

import asyncio
import importlib.util
import inspect
import itertools
import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from tracklog import Scope, Tape, TracklogError

Function = Callable[..., Any]


class ToolFailed(TracklogError):
    """A tool could not answer."""


class ToolRefused(ToolFailed):
    """A tool was not called: it does not exist, is not allowed here, or its input is wrong."""


def read_file(path: str) -> str:
    """The text of a file."""
    return Path(path).read_text()


def write_file(path: str, text: str) -> int:
    """Write a text to a file; returns the number of characters."""
    return Path(path).write_text(text)


def list_files(path: str = ".", pattern: str = "*") -> list[str]:
    """The files of a folder that match a pattern."""
    return sorted(str(each) for each in Path(path).glob(pattern) if each.is_file())


def parse_json(text: str) -> Any:
    """The value of a JSON text."""
    return json.loads(text)


TOOLS: dict[str, Function] = {
    "read_file": read_file,
    "write_file": write_file,
    "list_files": list_files,
    "parse_json": parse_json,
}


@cache
def entry_point_functions(group: str) -> dict[str, Function]:
    """The functions of other packages, under `tracklog.workflow.tools` or `tracklog.workflow.steps`."""
    return {point.name: point.load() for point in entry_points(group=f"tracklog.workflow.{group}")}


_numbers = itertools.count()


def load_function(folder: Path, where: str) -> Function:
    """The function of `file.py:function` in a folder."""
    file, _, name = where.rpartition(":")
    path = folder / file
    spec = importlib.util.spec_from_file_location(f"_tracklog_flow_{next(_numbers)}", path)
    if spec is None or spec.loader is None:
        raise TracklogError(f"{path} is not a Python file", "name a file that ends with .py")
    module = importlib.util.module_from_spec(spec)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # code of the user, which may raise anything
        raise TracklogError(
            f"{path}: {type(error).__name__}: {error}", "correct that file"
        ) from error
    finally:
        sys.dont_write_bytecode = writes
    function = getattr(module, name, None)
    if not callable(function):
        raise TracklogError(f"{path} has no function {name!r}", "name one that it has")
    return function  # type: ignore[no-any-return]  # it is callable


async def invoke(function: Function, given: Mapping[str, Any]) -> Any:
    """Calls a function that may be asynchronous or not; one that is not has a thread of its own."""
    if inspect.iscoroutinefunction(function):
        return await function(**given)
    return await asyncio.to_thread(function, **given)


class ToolRouter:
    """The tools of one workflow."""

    def __init__(self, tools: Mapping[str, Function]) -> None:
        self._tools = dict(tools)

    async def call(
        self,
        scope: Scope,
        name: str,
        given: Any,
        *,
        tape: Tape | None = None,
        provider_call_id: str | None = None,
        allowed: Collection[str] | None = None,
    ) -> Any:
        """Call a tool, and record the call and its result; raises `ToolFailed`."""
        more = {"provider_call_id": provider_call_id} if provider_call_id else {}
        with scope.tool(name, given, **more) as use:
            try:
                played = tape.play("tool", {"tool": name, "input": given}, name) if tape else None
                if played is not None:
                    use.output = self._played(played.answer)
                else:
                    use.output = json_data(await invoke(self._tool(name, given, allowed), given))
            except ToolFailed as error:
                use.error = error.message
                raise
            except TracklogError:
                raise
            except Exception as error:
                use.error = f"{type(error).__name__}: {error}"
                raise ToolFailed(f"{name}: {use.error}", "check its input") from error
            return use.output

    def described(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """The descriptions of some tools, as they are sent to a model."""
        return [describe(name, self._tools[name]) for name in names]

    @staticmethod
    def _played(answer: Any) -> Any:
        if answer.get("error") is not None:
            raise ToolFailed(str(answer["error"]), "this error is part of the recorded run")
        return answer.get("output")

    def _tool(self, name: str, given: Any, allowed: Collection[str] | None) -> Function:
        function = self._tools.get(name)
        if allowed is not None and name not in allowed:
            raise ToolRefused(f"{name!r} may not be called here", "add it to the agent's tools")
        if function is None:
            raise ToolRefused(
                f"there is no tool {name!r}", f"the tools are: {', '.join(self._tools)}"
            )
        if not isinstance(given, Mapping):
            raise ToolRefused(
                f"the input of {name} is not an object", "give each argument by its name"
            )
        try:
            inspect.signature(function).bind(**given)
        except TypeError as error:
            raise ToolRefused(
                f"{name}: {error}", f"it takes {inspect.signature(function)}"
            ) from None
        return function


def describe(name: str, function: Function) -> dict[str, Any]:
    """A function as the protocol of model servers describes one."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for each in inspect.signature(function).parameters.values():
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            continue
        kind = JSON_TYPES.get(each.annotation)
        properties[each.name] = {"type": kind} if kind else {}
        if each.default is each.empty:
            required.append(each.name)
    about = (inspect.getdoc(function) or "").partition("\n\n")[0]
    shape = {"type": "object", "properties": properties, "required": required}
    return {"name": name, "description": about, "parameters": shape}


JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array"}
JSON_TYPES |= {dict: "object", list[str]: "array", dict[str, Any]: "object"}


def json_data(value: Any) -> Any:
    """The value as JSON data; raises `ToolFailed` if that is not possible."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ToolFailed(
            f"its result cannot be written as JSON: {error}", "return plain values"
        ) from None
