"""An MCP server over one home: a tool for each of some questions, and resources of runs."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeVar

import orjson
from pydantic import BeforeValidator, Field, ValidationError, create_model

from tracklog import __version__
from tracklog.answers import Param, Question
from tracklog.answers.registry import question as question_of
from tracklog.collector.mcp import people
from tracklog.collector.mcp.paging import Page, page
from tracklog.collector.mcp.people import PersonAnswer
from tracklog.home.home import Home
from tracklog.model.errors import MissingExtra, TracklogError

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from mcp.types import CallToolResult

T = TypeVar("T")

QUESTIONS = ("runs", "show", "story", "why", "search", "costs", "series", "findings", "diff")
"""The questions that are tools."""
INSTRUCTIONS = (
    "tracklog is a flight recorder of AI agents. Use `runs` to find a run, `show` and `story` for "
    "what it did, `why` for the causes of one record, `costs` and `series` for money and tokens, "
    "`search` for words, `findings` for what is wrong, `diff` for two runs. An answer that is too "
    "large comes in pages: call the tool again with `skip` = `page.next`."
)
_LOOK = 0.5  # seconds between two looks for the answer of a person
_LONGEST_WAIT = 300.0


class HomeReader(Protocol):
    """Calls a function with the home, once its index is up to date."""

    def __call__(self, read: Callable[[Home], T]) -> Awaitable[T]: ...


def reading(home: Home) -> HomeReader:
    """The same for a home that only this process serves: one question at a time, in a thread."""
    lock = asyncio.Lock()

    async def ask(read: Callable[[Home], T]) -> T:
        def answer() -> T:
            home.index.catch_up()
            return read(home)

        async with lock:
            return await asyncio.to_thread(answer)

    return ask


def make_server(
    read: HomeReader, *, operate: bool = False, by: str = "operator"
) -> "MCPServer[Any]":
    """The server; only with `operate` it has the tools that ask a person, which write.

    `by` is who asks, where the request does not name the owner of a token.
    """
    try:
        from mcp.server import MCPServer  # noqa: PLC0415  # an extra
        from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415
        from mcp.types import ToolAnnotations  # noqa: PLC0415
    except ImportError as missing:
        raise MissingExtra("MCP", "mcp", missing) from missing

    class PlainServer(MCPServer[Any]):
        """A server that says in plain words what is wrong with the arguments of a tool."""

        async def call_tool(self, name: str, arguments: Any, context: Any = None) -> Any:
            for tool in await self.list_tools():
                known = list(tool.input_schema["properties"])
                unknown = sorted(set(arguments) - set(known)) if tool.name == name else ()
                if unknown:
                    raise ToolError(
                        f"{name}: `{unknown[0]}` is no argument; there are: {', '.join(known)}"
                    )
            try:
                return await super().call_tool(name, arguments, context)
            except ToolError as error:
                if not isinstance(error.__cause__, ValidationError):
                    raise
                raise ToolError(_faults(name, error.__cause__)) from error

    server: MCPServer[Any] = PlainServer(
        "tracklog", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING"
    )
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for name in QUESTIONS:
        question = question_of(name)
        server.add_tool(_tool(question, read), name, description=question.about, annotations=reads)
    _add_resources(server, read)
    if operate:
        _add_people(server, read, by)
    return server


def _tool(question: Question, read: HomeReader) -> Callable[..., Awaitable["CallToolResult"]]:
    """The tool of a question: its parameters, and a page of its answer."""
    from mcp.types import CallToolResult, TextContent  # noqa: PLC0415  # an extra

    arguments = {param.name: param.argument for param in question.params}

    async def tool(skip: int = 0, **given: Any) -> CallToolResult:
        named = {arguments[name]: value for name, value in given.items()}
        answer = await _asked(read, lambda home: question.ask(home, **named))
        part, place = page(answer, skip)
        result = {
            "answer": part,
            "page": None if place is None else orjson.loads(orjson.dumps(place)),
        }
        text = TextContent(type="text", text=orjson.dumps(result).decode())
        return CallToolResult(content=[text], structured_content=result)

    model = create_model(
        f"{question.name.title().replace('-', '')}Result",
        answer=(question.result, ...),
        page=(Page | None, Field(description="Null where this is the complete answer.")),
    )
    required = [each for each in question.params if each.required]
    optional = [each for each in question.params if not each.required]
    skip = inspect.Parameter(
        "skip",
        inspect.Parameter.KEYWORD_ONLY,
        default=0,
        annotation=Annotated[int, Field(ge=0, description="`page.next` of the page before.")],
    )
    tool.__name__ = question.name.replace("-", "_")
    tool.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what the SDK reads
        [*map(_parameter, required), *map(_parameter, optional), skip],
        return_annotation=Annotated[CallToolResult, model],
    )
    return tool


def _parameter(param: Param) -> inspect.Parameter:
    kinds = {"string": str, "integer": int, "number": float, "boolean": bool}
    kind: Any = Literal[param.options] if param.options else kinds[param.kind]
    default = param.default
    if param.many:
        several = BeforeValidator(lambda given: _several(given, param))
        kind, default = Annotated[list[kind], several], list(default or ())
    elif default is None and not param.required:
        kind |= None
    return inspect.Parameter(
        param.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if param.required else default,
        annotation=Annotated[kind, Field(description=param.about, ge=param.least, le=param.most)],
    )


def _several(given: Any, param: Param) -> Any:
    """A list, also where a model gives one value, or options with commas between them."""
    if isinstance(given, str):
        return given.split(",") if param.options else [given]
    return given if given is None or isinstance(given, list | tuple) else [given]


def _faults(tool: str, error: ValidationError) -> str:
    """What is wrong with arguments, as a model can correct it."""
    words: dict[str, str] = {}
    for each in error.errors(include_url=False):
        name, limits = str(each["loc"][0]), each.get("ctx", {})
        if each["type"] == "missing":
            words[name] = f"`{name}` is missing"
        elif each["type"] == "literal_error":
            allowed = limits["expected"].replace(" or ", ", ").replace("'", "")
            words[name] = f"`{name}` cannot be {each['input']!r}; allowed are: {allowed}"
        else:
            reason = each["msg"].removeprefix("Input ")
            reason = reason.replace("a valid integer", "an integer").replace("valid ", "")
            words[name] = f"`{name}` {reason}; it is {each['input']!r}"
    return f"{tool}: {'; '.join(words.values())}"


async def _asked(read: HomeReader, question: Callable[[Home], T]) -> T:
    """The answer; an error of ours reaches the model with its reason and its hint."""
    from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415  # an extra

    try:
        return await read(question)
    except TracklogError as error:
        raise ToolError(f"{error.message}; {error.hint}") from error


def _add_resources(server: "MCPServer[Any]", read: HomeReader) -> None:
    from mcp.server.mcpserver.exceptions import ResourceError  # noqa: PLC0415  # an extra

    show = question_of("show")

    @server.resource(
        "tracklog://runs/{family}/{run}",
        name="run",
        description="The state of a run: what it did, asked, called and spent.",
        mime_type="application/json",
    )
    async def run(family: str, run: str) -> str:
        try:
            answer = await read(lambda home: show.ask(home, f"{family}:{run}"))
        except TracklogError as error:
            raise ResourceError(f"{error.message}; {error.hint}") from error
        part, _ = page(answer)
        return orjson.dumps(part).decode()


_ASK = (
    "Ask a person, and wait for the answer. The question appears in the inbox of tracklog. Without "
    "an answer in time the status is `open`: go on, and fetch the answer later with `answer_of`."
)
_FETCH = "Fetch the answer of a person to a question that `ask_person` asked before."


BY = "tracklog.by"
"""The key of a request's scope with the name of the token."""


def _add_people(server: "MCPServer[Any]", read: HomeReader, by: str) -> None:
    from mcp.server.mcpserver import Context  # noqa: PLC0415  # an extra
    from mcp.types import ToolAnnotations  # noqa: PLC0415

    def asker(context: Any) -> str:
        request = context.request_context.request
        return str(request.scope.get(BY, by)) if request is not None else by

    asks = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)

    @server.tool(description=_FETCH, annotations=asks, structured_output=True)
    async def answer_of(
        question_id: Annotated[str, Field(description="As `ask_person` returned it.")],
    ) -> PersonAnswer:
        return await _asked(read, lambda home: people.answer(home, question_id))

    @server.tool(description=_ASK, annotations=asks, structured_output=True)
    async def ask_person(
        question: Annotated[str, Field(min_length=1, description="What to ask.")],
        choices: Annotated[
            list[str] | None, Field(description="The answers to choose from.")
        ] = None,
        wait_seconds: Annotated[float, Field(ge=0, le=_LONGEST_WAIT)] = 50,
        run: Annotated[str | None, Field(description="The run that asks; else a new one.")] = None,
        context: Context[Any, Any] | None = None,
    ) -> PersonAnswer:
        who = asker(context)
        asked = await _asked(
            read, lambda home: people.ask(home, question, choices or (), run, by=who)
        )
        until = time.monotonic() + wait_seconds
        while asked.status == "open" and (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(_LOOK, left))
            asked = await answer_of(asked.question_id)
        return asked
