"""LangChain and LangGraph: a callback handler that records agents, model calls and tools.

    from tracklog.formats.adapters.langchain import handler

    agent.invoke({"messages": …}, config={"callbacks": [handler()]})

`install()` records every call of this process instead. One `invoke` is one run; with a `thread_id`
or a `session_id` in its configuration, the conversation is one run.
"""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tracklog.formats.adapters._writing import (
    FactWriter,
    as_json,
    described,
    library,
    quietly,
    software_of,
    text_blocks,
)

ROLES = {"human": "user", "system": "system", "developer": "system"}
"""The messages to a model that are recorded when it is asked, and the role of each."""
PLUMBING = {"model", "tools"}
"""The nodes of every agent that `create_agent` makes: no steps of their own."""


@dataclass(slots=True)
class _CallbackScope:
    """Where a callback stands: its run, its agent, its step, and the call that it is part of."""

    run: str
    agent: str | None = None
    step: str | None = None
    call: str | None = None
    began: str | None = None
    """What ends with this scope: a run, an agent or a step."""
    tool: str | None = None
    model: str | None = None
    written: set[str] = field(default_factory=set)
    """The messages of the run that were recorded."""
    nested: bool = False
    """Whether another agent gives the instructions here."""


class LangChainCallbacks(FactWriter):
    """The callbacks; `handler` makes a LangChain handler of them."""

    framework = "langchain"
    run_inline = True
    raise_error = False

    def __init__(self, url: str | None = None, emitter: Any = None) -> None:
        super().__init__(url, emitter)
        self._scopes: dict[Any, _CallbackScope] = {}
        self._asked: dict[str, list[str]] = {}
        """The open questions of each run."""

    @quietly
    def on_chain_start(self, serialized: Any, inputs: Any, **about: Any) -> None:
        metadata = about.get("metadata") or {}
        name = about.get("name") or (serialized or {}).get("name")
        scope = self._enter(about, metadata, name)
        if scope.began == "run":
            self._begin(scope, inputs)
            return
        agent, node = metadata.get("lc_agent_name"), metadata.get("langgraph_node")
        if agent and agent == name and agent != scope.agent:
            scope.agent, scope.began, scope.nested = agent, "agent", True
            self._write(scope, "Began", what="agent")
        elif node and node == name and not (agent and node in PLUMBING):
            scope.step, scope.began = f"{node}#{metadata.get('langgraph_step', 0)}", "step"
            self._write(scope, "Began", what="step")

    @quietly
    def on_chain_end(self, outputs: Any, **about: Any) -> None:
        scope = self._scopes.pop(about["run_id"], None)
        if scope is None or scope.began is None:
            return
        waits = outputs.get("__interrupt__") if isinstance(outputs, Mapping) else None
        if waits and scope.began == "run":
            self._ask(scope, waits)
            return
        self._write(scope, "Ended", what=scope.began, outcome="completed", passed=True)

    @quietly
    def on_chain_error(self, error: BaseException, **about: Any) -> None:
        scope = self._scopes.pop(about["run_id"], None)
        if scope is None or scope.began is None:
            return
        if _pauses(error):
            if scope.began == "run":
                self._ask(scope, error.args[0] if error.args else ())
            return
        self._fail(scope, error)

    @quietly
    def on_chat_model_start(self, serialized: Any, messages: Any, **about: Any) -> None:
        scope = self._model(serialized, about)
        for batch in messages:
            last = max((n for n, each in enumerate(batch) if _kind(each) not in ROLES), default=-1)
            for place, message in enumerate(batch):
                role = ROLES.get(_kind(message))
                # what a person said before the model's last answer is history
                if role == "system" or (role == "user" and place > last):
                    self._message(scope, role, place, message)

    @quietly
    def on_llm_start(self, serialized: Any, prompts: Sequence[str], **about: Any) -> None:
        scope = self._model(serialized, about)
        for prompt in prompts:
            self._write(scope, "Said", role="user", blocks=text_blocks(prompt))

    @quietly
    def on_llm_end(self, response: Any, **about: Any) -> None:
        scope = self._scopes.pop(about["run_id"], None)
        if scope is None:
            return
        for number, generations in enumerate(response.generations):
            for generation in generations[:1]:
                self._answer(scope, generation, f"{about['run_id']}/{number}")
        if scope.began == "run":
            self._write(scope, "Ended", what="run", outcome="completed", passed=True)

    @quietly
    def on_llm_error(self, error: BaseException, **about: Any) -> None:
        scope = self._scopes.pop(about["run_id"], None)
        if scope is None:
            return
        self._write(scope, "Noted", label="error", kind="model", text=described(error))
        if scope.began == "run":
            self._fail(scope, error)

    @quietly
    def on_tool_start(self, serialized: Any, input_str: str, **about: Any) -> None:
        name = about.get("name") or (serialized or {}).get("name") or "tool"
        given = about.get("inputs")
        self._call(name, input_str if given is None else given, about)

    @quietly
    def on_tool_end(self, output: Any, **about: Any) -> None:
        failed = getattr(output, "status", None) == "error"
        content = getattr(output, "content", output)
        fields = {"error": content} if failed else {"output": content}
        self._return(about, ok=not failed, **fields)

    @quietly
    def on_tool_error(self, error: BaseException, **about: Any) -> None:
        if _pauses(error):
            self._return(about, status="interrupted")
        else:
            self._return(about, ok=False, error=described(error))

    @quietly
    def on_retriever_start(self, serialized: Any, query: str, **about: Any) -> None:
        name = about.get("name") or (serialized or {}).get("name") or "retriever"
        self._call(name, {"query": query}, about)

    @quietly
    def on_retriever_end(self, documents: Any, **about: Any) -> None:
        self._return(about, ok=True, output=[_document(each) for each in documents])

    @quietly
    def on_retriever_error(self, error: BaseException, **about: Any) -> None:
        self._return(about, ok=False, error=described(error))

    def _enter(self, about: Mapping[str, Any], metadata: Any, name: Any) -> _CallbackScope:
        """The scope of a callback: inside that of its parent, or a run of its own."""
        parent = self._scopes.get(about.get("parent_run_id"))
        if parent is None:
            run = metadata.get("session_id") or metadata.get("thread_id") or about["run_id"]
            scope = _CallbackScope(str(run), metadata.get("lc_agent_name") or name, began="run")
        else:
            scope = _CallbackScope(parent.run, parent.agent, parent.step, parent.call)
            scope.written, scope.nested = parent.written, parent.nested
        self._scopes[about["run_id"]] = scope
        return scope

    def _begin(self, scope: _CallbackScope, inputs: Any) -> None:
        answer = getattr(inputs, "resume", None)
        if answer is not None:  # a Command that resumes an interrupted graph
            for question in self._asked.pop(scope.run, ()):
                self._write(scope, "Answered", question_id=question, answer=answer)
        software = software_of("langchain-core")
        self._write(scope, "Began", what="run", task=_task(inputs), software=software)

    def _ask(self, scope: _CallbackScope, waits: Sequence[Any]) -> None:
        for number, wait in enumerate(waits):
            id = str(getattr(wait, "id", None) or f"{scope.run}/{number}")
            value = as_json(getattr(wait, "value", wait))
            text = value if isinstance(value, str) else str(value)
            self._asked.setdefault(scope.run, []).append(id)
            self._write(scope, "Asked", question_id=id, text=text, what="interrupt")

    def _fail(self, scope: _CallbackScope, error: BaseException) -> None:
        end: dict[str, Any] = {"outcome": "failed", "passed": False, "error": described(error)}
        self._write(scope, "Ended", what=scope.began, **end)

    def _model(self, serialized: Any, about: Mapping[str, Any]) -> _CallbackScope:
        metadata = about.get("metadata") or {}
        scope = self._enter(about, metadata, (serialized or {}).get("name"))
        asked = about.get("invocation_params") or {}
        scope.model = asked.get("model") or asked.get("model_name") or metadata.get("ls_model_name")
        if scope.began == "run":
            self._begin(scope, None)
        return scope

    def _message(self, scope: _CallbackScope, role: str, place: int, message: Any) -> None:
        blocks = _blocks(message.content)
        digest = sha256(repr((role, blocks)).encode("utf-8", "replace")).hexdigest()
        key = str(getattr(message, "id", None) or f"{place}/{digest}")
        if key not in scope.written:
            scope.written.add(key)
            injected = True if scope.nested and role == "user" else None
            self._write(scope, "Said", once=key, role=role, blocks=blocks, injected=injected)

    def _answer(self, scope: _CallbackScope, generation: Any, key: str) -> None:
        message = getattr(generation, "message", None)
        reported = getattr(message, "response_metadata", None) or {}
        model = reported.get("model_name") or reported.get("model") or scope.model
        blocks = _blocks(generation.text if message is None else message.content)
        stop = reported.get("finish_reason") or reported.get("stop_reason")
        if blocks:
            id = getattr(message, "id", None) or key
            self._write(
                scope, "Said", role="assistant", blocks=blocks, model=model, message_id=id,
                stop_reason=stop,
            )  # fmt: skip  # one call
        usage = _usage(getattr(message, "usage_metadata", None))
        provider = reported.get("model_provider")
        self._write(scope, "Spent", key=key, provider=provider, model=model, usage=usage, calls=1)

    def _call(self, name: str, given: Any, about: Mapping[str, Any]) -> None:
        scope = self._enter(about, about.get("metadata") or {}, name)
        if scope.began == "run":
            self._begin(scope, given)
        made_by, known = scope.call, about.get("tool_call_id")
        scope.call, scope.tool = str(known or about["run_id"]), name
        self._write(
            scope, "Called", tool=name, call_id=scope.call, input=given, parent_call_id=made_by,
            synthetic_id=None if known else True,
        )  # fmt: skip  # one call

    def _return(self, about: Mapping[str, Any], **result: Any) -> None:
        scope = self._scopes.pop(about["run_id"], None)
        if scope is None or scope.call is None:
            return
        self._write(scope, "Returned", call_id=scope.call, tool=scope.tool, **result)
        if scope.began == "run":
            ok = result.get("ok")
            self._write(
                scope, "Ended", what="run", outcome="completed" if ok else "failed", passed=ok
            )

    def _write(self, scope: _CallbackScope, fact: str, **fields: Any) -> None:
        self.write(fact, scope.run, agent=scope.agent, step=scope.step, **fields)


def handler(url: str | None = None, *, emitter: Any = None) -> Any:
    """A callback handler, for `config={"callbacks": [handler()]}`; `url` is the collector's."""
    base = library("langchain_core.callbacks", "langchain-core").BaseCallbackHandler
    return type("TracklogHandler", (LangChainCallbacks, base), {})(url, emitter)


def install(url: str | None = None, *, emitter: Any = None) -> Any:
    """Record every LangChain and LangGraph call of this process; returns the handler."""
    context = library("langchain_core.tracers.context", "langchain-core")
    made = handler(url, emitter=emitter)
    context.register_configure_hook(ContextVar("tracklog", default=made), inheritable=True)
    return made


def _kind(message: Any) -> str:
    return str(getattr(message, "type", ""))


def _pauses(error: BaseException) -> bool:
    """Whether an exception only interrupts a graph, for a person or for a jump."""
    return any(each.__name__ == "GraphBubbleUp" for each in type(error).__mro__)


def _task(inputs: Any) -> str | None:
    """The text of the last message of a person, or the text that a chain was given."""
    if isinstance(inputs, str):
        return inputs
    messages = inputs.get("messages") if isinstance(inputs, Mapping) else inputs
    for message in reversed(messages) if isinstance(messages, list | tuple) else ():
        if isinstance(message, Mapping):
            role, content = message.get("role") or message.get("type"), message.get("content")
        elif isinstance(message, tuple) and len(message) == 2:
            role, content = message
        else:
            role, content = getattr(message, "type", None), getattr(message, "content", None)
        if role in ("user", "human"):
            return " ".join(each.get("text", "") for each in _blocks(content)) or None
    return None


def _blocks(content: Any) -> list[dict[str, Any]]:
    """The content of a message as blocks; calls are left out, they are facts of their own."""
    if isinstance(content, str):
        return text_blocks(content) if content else []
    blocks = []
    for part in content if isinstance(content, list | tuple) else ():
        if isinstance(part, str):
            blocks += text_blocks(part)
        elif isinstance(part, Mapping):
            kind = part.get("type")
            if isinstance(part.get("text"), str):
                blocks += text_blocks(part["text"])
            elif kind in ("thinking", "reasoning"):
                thought = part.get("thinking") or part.get("reasoning") or part.get("summary")
                if thought:
                    blocks.append({"type": "thinking", "thinking": _thought(thought)})
            elif kind not in ("tool_use", "tool_call", "function_call", "tool_call_chunk"):
                blocks.append({"type": str(kind or "unknown"), "data": as_json(part)})
    return blocks


def _thought(thought: Any) -> str:
    if isinstance(thought, list):
        return " ".join(str(each.get("text", "")) for each in thought if isinstance(each, Mapping))
    return str(thought)


def _usage(reported: Any) -> dict[str, Any] | None:
    """The token counts of a model call, as LangChain writes them for every provider."""
    if not isinstance(reported, Mapping):
        return None
    read = reported.get("input_token_details") or {}
    written = reported.get("output_token_details") or {}
    usage = {
        "input_tokens": reported.get("input_tokens"),
        "cached_tokens": read.get("cache_read"),
        "cache_write_tokens": read.get("cache_creation"),
        "output_tokens": reported.get("output_tokens"),
        "reasoning_tokens": written.get("reasoning"),
        "total_tokens": reported.get("total_tokens"),
    }
    return {key: value for key, value in usage.items() if value is not None}


def _document(document: Any) -> Any:
    text = getattr(document, "page_content", None)
    return {"text": text, "metadata": getattr(document, "metadata", None)} if text else document
