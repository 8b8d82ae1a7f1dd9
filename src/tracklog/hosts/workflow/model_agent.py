"""An agent on a model server; the tools that the model asks for are called through the router.

As for a program, three listeners that share no state get the stream (AWF-43).
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracklog import NullRecorder, ReplyStatus, Scope, Tape, provider
from tracklog.hosts import _endpoint
from tracklog.hosts.workflow.agents import (
    AgentAnswer,
    AgentPrompt,
    Block,
    OutputListener,
    RecordListener,
    ResultListener,
    Shown,
    play,
)
from tracklog.hosts.workflow.flow import Agent
from tracklog.hosts.workflow.router import ToolFailed, ToolRouter

MOST_ROUNDS = 32
"""How many answers in a row may ask for tools."""


@dataclass(slots=True)
class ModelAgent:
    """A conversation with a model; each prompt is sent with the messages before it."""

    agent: Agent
    environment: Mapping[str, str]
    router: ToolRouter
    put: Callable[[str], None]
    _messages: list[dict[str, Any]] = field(default_factory=list)

    async def ask(
        self, scope: Scope, asked: AgentPrompt, tape: Tape | None, lane: str
    ) -> AgentAnswer:
        """Ask it, and call the tools that it requests, until it has answered."""
        if asked.system and not self._messages:
            self._messages.append({"role": "system", "content": asked.system})
        self._messages.append({"role": "user", "content": asked.prompt})
        server = None
        now = asyncio.get_running_loop().time()
        until = now + asked.timeout if asked.timeout else None
        try:
            for _ in range(MOST_ROUNDS):
                played = tape.play("model", asked.as_recorded, lane) if tape else None
                if played is not None:
                    answer, blocks = play(scope, played, self.put), played.answer["blocks"]
                else:
                    server = server or self._server(asked)
                    answer, blocks = await self._round(server, scope, until)
                calls = [block for block in blocks if block["type"] == "tool_use"]
                self._remember(answer.text, calls)
                if answer.status != "ok" or not calls:
                    return answer
                for call in calls:
                    await self._call(scope, call, tape)
            error = f"it asked for tools in {MOST_ROUNDS} answers in a row"
            return AgentAnswer(status="error", error=error)
        finally:
            if server is not None:
                await server.close()

    def _server(self, asked: AgentPrompt) -> _endpoint.Endpoint:
        key = self.environment.get(self.agent.key)
        patience = asked.timeout or _endpoint.PATIENCE
        return _endpoint.Endpoint(self.agent.endpoint or "", key, patience=patience)

    async def _round(
        self, server: _endpoint.Endpoint, scope: Scope, until: float | None
    ) -> tuple[AgentAnswer, list[Block]]:
        """One answer. However it ends, the text that has arrived is recorded."""
        known = provider(_endpoint.PROVIDER)
        result = ResultListener(known)
        listeners: list[OutputListener] = [result, Shown(known, self.put)]
        if not isinstance(scope.recorder, NullRecorder):
            listeners.append(RecordListener(scope, known, routed=True))

        complete = False

        def feed(line: bytes) -> None:
            nonlocal complete
            complete = complete or b'"finish_reason":"' in line
            for listener in listeners:
                listener.feed(line)

        def finish(status: ReplyStatus, why: str = "") -> None:
            for listener in listeners:
                listener.finish(status, None, why.encode())

        tools = self.router.described(self.agent.tools)
        try:
            asked = _endpoint.question(self._messages, tools, **self.agent.options)
            async with asyncio.timeout_at(until):
                await server.ask(asked, feed)
        except asyncio.CancelledError:
            finish("killed")
            raise
        except TimeoutError:
            finish("timeout", "it took too long")
        except _endpoint.ModelFailed as error:
            finish("timeout" if error.stalled else "error", error.message)
        else:
            finish("ok" if complete else "error", "" if complete else "the answer broke off")
        return result.answer, result.blocks

    def _remember(self, text: str, calls: list[Block]) -> None:
        data: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            data["tool_calls"] = [
                {
                    "id": call["tool_id"],
                    "type": "function",
                    "function": {
                        "name": call["tool_name"],
                        "arguments": json.dumps(call["tool_input"] or {}),
                    },
                }
                for call in calls
            ]
        self._messages.append(data)

    async def _call(self, scope: Scope, call: Block, tape: Tape | None) -> None:
        """Call one tool, and send the result to the model, also if the tool failed or is forbidden."""
        name, given = call["tool_name"], call["tool_input"]
        given = {} if given is None else given
        try:
            output = await self.router.call(
                scope, name, given, tape=tape, provider_call_id=call["tool_id"],
                allowed=self.agent.tools,
            )  # fmt: skip
            content = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        except ToolFailed as error:
            content = json.dumps({"error": error.message})
        self._messages.append({"role": "tool", "tool_call_id": call["tool_id"], "content": content})
