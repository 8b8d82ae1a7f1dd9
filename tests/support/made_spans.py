"""Spans and log records made from a number: the same ones for the same number, on any machine.

Hypothesis draws other examples with every release, so their lines could not be recorded.
"""

import json
import random

from support.telemetry import logs, pairs, span, traces, value

OPERATIONS = (
    "chat", "chat", "chat", "execute_tool", "execute_tool", "execute_tool", "invoke_agent",
    "invoke_workflow", "embeddings", "create_agent", "plan", "generate_content", "acompletion",
    "search_memory",
)  # fmt: skip  # the frequent ones several times
WORDS = ("look", "a longer word", "", "m-1", "m-1-2026", 'ü\n"', "secret", "user", "[", "1", "{}")
TOOLS = ("look", "write")
AGENTS = ("claude_code.", "codex.", "gemini_cli.")
EVENTS = (
    "exception", "gen_ai.choice", "gen_ai.user.message", "gen_ai.tool.message",
    "gen_ai.content.prompt", "gen_ai.client.inference.operation.details",
    "gen_ai.evaluation.result", "gen_ai.client.operation.exception", "note.taken", "",
    *(f"{agent}{name}" for agent in AGENTS for name in (
        "user_prompt", "assistant_response", "api_request", "api_response", "sse_event",
        "tool_result", "tool_call", "tool_decision", "conversation_starts", "chat_compression",
        "api_error", "other")),
)  # fmt: skip  # a row for each kind
TEXTS = (
    "gen_ai.provider.name", "gen_ai.system", "llm.provider", "gen_ai.request.model",
    "gen_ai.response.model", "llm.model_name", "gen_ai.agent.name", "agent.name", "graph.node.id",
    "langgraph_node", "gen_ai.response.id", "gen_ai.workflow.name", "traceloop.entity.name",
    "error.type", "user.id", "enduser.id", "prompt", "response", "model", "decision", "source",
    "prompt.id", "event.kind", "request_id", "exception.type", "exception.message",
    "exception.stacktrace", "mcp.method.name", "mcp.server.name", "gen_ai.evaluation.name",
    "gen_ai.evaluation.score.label", "other.name", "tool_name", "app.version", "error",
    "logfire.pending_parent_id", "event.name", "input.value", "output.value",
)  # fmt: skip  # one row
COUNTS = (
    "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.prompt_tokens",
    "gen_ai.usage.completion_tokens", "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.reasoning.output_tokens", "llm.token_count.prompt", "llm.token_count.completion",
    "llm.token_count.total", "process.exit.code", "input_token_count", "output_token_count",
    "input_tokens", "output_tokens", "cache_read_tokens", "duration_ms", "event.sequence",
    "gen_ai.request.max_tokens", "jsonrpc.request.id", "gen_ai.evaluation.score.value",
)  # fmt: skip  # one row
OTHERS = (
    "llm.cost.total", "cost_usd", "success", "gen_ai.response.finish_reasons", "x.list", "x.deep",
    "gen_ai.request.temperature", "tracklog.unfinished", "metadata", "x.none", "thread.id",
)  # fmt: skip  # one row


class Maker:
    """Draws requests; `random()` is the one method that every Python implements alike."""

    def __init__(self, number):
        self._draw = random.Random(number).random
        self._known = []

    def below(self, most):
        return int(self._draw() * most)

    def one(self, *choices):
        return choices[self.below(len(choices))]

    def chance(self, share):
        return self._draw() < share

    def requests(self):
        """A few requests about the same runs, spans among them that are sent twice."""
        made = [self._request() for _ in range(1 + self.below(4))]
        return made + [made[0]] * self.chance(0.2)

    def _request(self):
        resource = {
            "service.name": self.one("sample", "sample", "codex", "gemini-cli", "unknown_service")
        }
        resource |= {"service.version": "1.2"} if self.chance(0.3) else {}
        resource |= {"host.name": "here"} if self.chance(0.3) else {}
        resource |= {"session.id": "s-0"} if self.chance(0.1) else {}
        items = range(1 + self.below(6))
        if self.chance(0.25):
            return logs(*(self._record() for _ in items), **resource)
        document = traces(*(self._span() for _ in items), **resource)
        if self.chance(0.3):
            document["resourceSpans"][0]["schemaUrl"] = "https://example.org/1"
            document["resourceSpans"][0]["scopeSpans"][0]["scope"] = {"name": "lib", "version": "2"}
        return document

    def _span(self):
        if self._known and self.chance(0.08):
            return {**self.one(*self._known), "name": "corrected"}
        does = self.one(*OPERATIONS)
        attributes = self._operation(does) | self._attributes()
        made = span(
            1 + self.below(12),
            self.one(does, f"{does} look", "step", "handoff to helper", ""),
            attributes,
            self.one(None, 1, 1, 1, 2, 3, 40),
            traceId=self.one("a", "a", "a", "b") * 32,
            startTimeUnixNano=str(1778000000000000000 + self.below(10**10)),
            endTimeUnixNano=str(1778000000000000000 + self.below(10**11)),
            kind=self.below(6),
        )
        if self.chance(0.05):
            del made["endTimeUnixNano"]
        if self.chance(0.3):
            made["status"] = {"code": self.below(3), "message": self.one(*WORDS)}
        if self.chance(0.2):
            made["events"] = [self._event() for _ in range(1 + self.below(3))]
        if self.chance(0.05):
            kind = pairs({"kind": self.one("fork", "other")})
            made["links"] = [{"traceId": "c" * 32, "spanId": "d" * 16, "attributes": kind}]
        if self.chance(0.05):
            made["droppedAttributesCount"] = 1 + self.below(5)
        self._known.append(made)
        return made

    def _operation(self, does):
        """The attributes that belong to an operation, in one of the vocabularies."""
        named = {"gen_ai.operation.name": does}
        if self.chance(0.2):
            named = {
                "openinference.span.kind": self.one("LLM", "TOOL", "AGENT", "CHAIN", "EVALUATOR")
            }
        elif self.chance(0.1):
            named = {"traceloop.span.kind": self.one("workflow", "agent", "tool", "task")}
        elif self.chance(0.1):
            named = {}
        if "tool" in does or self.chance(0.1):
            named |= {
                "gen_ai.tool.name": self.one(*TOOLS),
                "gen_ai.tool.call.arguments": self.one("", '{"path":"a"}', '{"cut', "plain"),
                "gen_ai.tool.call.result": self.one("done", '{"type":"tool","data":{"status":"error","tool_call_id":"c-1"}}', "[1, 2]", "long " * 2000, "A1b2" * 2000),
            }  # fmt: skip  # a row for each
            named |= {"gen_ai.tool.call.id": f"c-{self.below(4)}"} if self.chance(0.7) else {}
            named |= {"mcp.session.id": "s", "jsonrpc.request.id": "7"} if self.chance(0.1) else {}
        elif does != "create_agent" and self.chance(0.7):
            named |= self._messages()
        return named

    def _messages(self):
        given = [self._message("user") for _ in range(self.below(4))]
        answer = [self._message("assistant") for _ in range(self.below(3))]
        match self.below(6):
            case 0:
                return {
                    f"gen_ai.{part}.{n}.{key}": each[key]
                    for part, rows in (("prompt", given), ("completion", answer))
                    for n, each in enumerate(rows)
                    for key in ("role", "content")
                }
            case 1:
                return {
                    f"llm.{part}_messages.{n}.message.{key}": each[key]
                    for part, rows in (("input", given), ("output", answer))
                    for n, each in enumerate(rows)
                    for key in ("role", "content")
                }
            case 2:
                return {"input.value": json.dumps({"messages": given}), "output.value": "words"}
        found = {"gen_ai.input.messages": json.dumps([self._parts(each) for each in given])}
        if self.chance(0.7):
            found["gen_ai.output.messages"] = json.dumps([self._parts(each) for each in answer])
        if self.chance(0.1):
            found["gen_ai.input.messages"] = found["gen_ai.input.messages"][:-1]
        if self.chance(0.2):
            found["gen_ai.system_instructions"] = json.dumps([{"type": "text", "content": "be"}])
        return found

    def _message(self, role):
        return {"role": self.one(role, role, "system", "tool", "odd"), "content": self.one(*WORDS)}

    def _parts(self, message):
        parts = [{"type": "text", "content": message["content"]}]
        if self.chance(0.3):
            call = {"type": "tool_call", "name": self.one(*TOOLS), "arguments": {"path": "a"}}
            parts.append(call | ({"id": f"c-{self.below(4)}"} if self.chance(0.7) else {}))
        if self.chance(0.2):
            parts.append({"type": "tool_call_response", "id": "c-1", "response": "done"})
        if self.chance(0.1):
            parts.append({"type": "reasoning", "content": "hm"})
        if self.chance(0.05):
            parts.append({"type": "blob", "mime_type": "image/png", "content": "aGFsbG8="})
        reason = {"finish_reason": "tool_calls"} if self.chance(0.2) else {}
        return {"role": message["role"], "parts": parts, **reason}

    def _attributes(self):
        found = {}
        for _ in range(self.below(6)):
            found[self.one(*TEXTS)] = self.one(*WORDS)
        for _ in range(self.below(4)):
            found[self.one(*COUNTS)] = self.one(0, 7, 120, "30", 1.5)
        for _ in range(self.below(2)):
            found[self.one(*OTHERS)] = self.one(
                0.25, True, "true", ["stop"], [1, {"a": None}], None, '{"langgraph_node":"n"}', -3
            )
        if self.chance(0.3):
            key = self.one(
                "gen_ai.conversation.id", "session.id", "conversation.id", "tracklog.run.id"
            )
            found[key] = self.one("s-0", "s-1", "0b8efff7-9803-4103-9269-b633813fc60c")
        if self.chance(0.05):
            found["logfire.span_type"] = "pending_span"
        if self.chance(0.05):
            found |= {"evaluations.0.evaluation.name": "e", "evaluations.0.evaluation.score": 0.5}
        return found

    def _event(self):
        return {
            "name": self.one(*EVENTS),
            "timeUnixNano": str(1778000000000000000 + self.below(10**9)),
            "attributes": pairs(self._operation("chat") | self._attributes()),
        }

    def _record(self):
        found = {"attributes": pairs(self._operation("chat") | self._attributes())}
        found[self.one("timeUnixNano", "observedTimeUnixNano")] = str(
            1778000000000000000 + self.below(10**9)
        )
        if self.chance(0.9):
            found["eventName"] = self.one(*EVENTS)
        if self.chance(0.5):
            found["body"] = value(self.one("words", {"content": "words", "role": "user"}, 1, None))
        if self.chance(0.5):
            found |= {"traceId": "a" * 32, "spanId": f"{1 + self.below(12):016x}"}
        if self.chance(0.3):
            found["severityNumber"] = self.one(9, 17)
        return found
