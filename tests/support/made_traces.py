"""Whole traces made from a number: an agent asks a model again and again, and calls tools.

Spans of `made_spans` are as odd as can be; these are as most programs send them, in one of four
vocabularies, with a history that grows, split over requests and in any order.
"""

import json

from support.made_spans import TOOLS, Maker
from support.telemetry import span, traces

SECOND = 10**9
START = 1778000000 * SECOND
KINDS = {"chat": "LLM", "execute_tool": "TOOL", "invoke_agent": "AGENT"}


class TraceMaker(Maker):
    """Draws the requests of one program."""

    def __init__(self, number):
        super().__init__(number)
        self._n, self._history = 0, []
        self._vocabulary = self.one("genai", "genai", "openinference", "old", "ai-sdk")
        self._withheld = self.chance(0.2)
        self._common = {"gen_ai.agent.name": "coder"} if self.chance(0.5) else {}
        if self.chance(0.3):
            self._common["gen_ai.conversation.id"] = "s-0"
        self._ids = self.chance(0.8)
        self.calls = self.failures = self.spends = self.given = self.taken = 0
        """The truth: calls of tools, those that failed, calls of the model, tokens in and out."""

    def requests(self):
        spans = [each for agent in range(1 + self.below(2)) for each in self._agent(agent)]
        if self.chance(0.7):
            spans.sort(key=lambda each: int(each["endTimeUnixNano"]))  # as programs send them
        elif self.chance(0.5):
            spans.sort(key=lambda _: self._draw())
        if self.chance(0.2):
            spans.append(self.one(*spans))
        size = self.one(1, 3, 7, 100)
        resource = {"service.name": "sample"} | ({"host.name": "here"} if self.chance(0.3) else {})
        return [traces(*spans[n : n + size], **resource) for n in range(0, len(spans), size)]

    def _agent(self, number):
        above = self._next("invoke_agent", {}, None if number == 0 else 1)
        root, found = self._n, []
        for turn in range(1 + self.below(6)):
            self._history.append({"role": "user", "content": f"step {turn} " + "words " * 9})
            found += self._turn(root)
        above["endTimeUnixNano"] = str(START + (self._n + 1) * SECOND)
        return [above, *found]

    def _turn(self, root):
        calls = [
            {"id": f"c-{self._n}-{n}", "name": self.one(*TOOLS), "arguments": {"path": f"{n}"}}
            for n in range(self.below(3))
        ]
        answer = {"role": "assistant", "content": self.one("", "an answer", "[1]"), "calls": calls}
        given = [*self._history, *([{"role": "system", "content": "be"}] * self.chance(0.1))]
        found = [self._next("chat", self._asked(given, answer), root)]
        self._history.append(answer)
        for call in calls:
            result = self.one("done", '{"a": 1}', "3", "A1b2" * 1500)
            found.append(self._next("execute_tool", self._called(call, result), root))
            self._history.append({"role": "tool", "id": call["id"], "content": result})
        return found

    def _next(self, does, attributes, above):
        self._n += 1
        genai = self._vocabulary in ("genai", "old")
        named = {"gen_ai.operation.name": does}
        if not genai and not (self._vocabulary == "ai-sdk" and does == "chat"):
            named = {"openinference.span.kind": KINDS[does]}
        made = span(
            self._n,
            f"{does} {self._n % 3}",
            named | self._common | attributes,
            above,
            kind=self.one(1, 3),
            startTimeUnixNano=str(START + self._n * SECOND + self.below(SECOND)),
            endTimeUnixNano=str(START + (self._n + 1) * SECOND),
        )
        if self.chance(0.1):
            made["status"] = {"code": self.one(1, 2, 2), "message": "it failed"}
        if does == "execute_tool":
            self.calls += 1
            self.failures += made.get("status", {}).get("code") == 2
        if self.chance(0.05):
            made["attributes"] += span(attributes={"x.flag": True, "user.name": "ada"})[
                "attributes"
            ]
        return made

    def _asked(self, given, answer):
        tokens = 100 + self._n, self.below(9)
        self.spends += 1
        self.given += tokens[0]
        self.taken += tokens[1]
        counts = {
            "gen_ai.provider.name": "openai", "gen_ai.request.model": "m-1",
            "gen_ai.usage.input_tokens": tokens[0], "gen_ai.usage.output_tokens": tokens[1],
        }  # fmt: skip  # two rows
        if self.chance(0.7):
            counts["gen_ai.response.id"] = f"r-{self._n}"
        if self._withheld:
            return counts
        match self._vocabulary:
            case "openinference":
                rows = {f"llm.input_messages.{n}": each for n, each in enumerate(given)}
                rows["llm.output_messages.0"] = answer
                found = {
                    f"{row}.message.{key}": value
                    for row, each in rows.items()
                    for key, value in self._flat(each).items()
                }
                return found | {
                    "llm.model_name": "m-1",
                    "llm.token_count.prompt": tokens[0],
                    "llm.token_count.completion": tokens[1],
                    "input.value": json.dumps({"messages": len(given)}),
                }
            case "old":
                rows = {f"gen_ai.prompt.{n}": each for n, each in enumerate(given)}
                rows["gen_ai.completion.0"] = answer
                return counts | {
                    f"{row}.{key}": each[key]
                    for row, each in rows.items()
                    for key in ("role", "content")
                }
            case "ai-sdk":
                calls = [
                    {"toolCallId": each["id"], "toolName": each["name"], "input": each["arguments"]}
                    for each in answer["calls"]
                ]
                return counts | {
                    "ai.prompt.messages": json.dumps([self._api(each) for each in given]),
                    "ai.response.text": answer["content"],
                    "ai.response.toolCalls": json.dumps(calls),
                    "ai.prompt.tools": ["look"],
                }
        return counts | {
            "gen_ai.input.messages": json.dumps([self._parted(each) for each in given]),
            "gen_ai.output.messages": json.dumps(
                [self._parted(answer) | {"finish_reason": self.one("stop", "tool_calls")}]
            ),
        }

    def _flat(self, message):
        found = {"role": message["role"], "content": message["content"]}
        for n, call in enumerate(message.get("calls", ())):
            row = f"tool_calls.{n}.tool_call"
            found |= {
                f"{row}.id": call["id"],
                f"{row}.function.name": call["name"],
                f"{row}.function.arguments": json.dumps(call["arguments"]),
            }
        return found | ({"tool_call_id": message["id"]} if "id" in message else {})

    def _api(self, message):
        if "id" in message:
            result = {"type": "tool-result", "toolCallId": message["id"], "output": {"value": 1}}
            return {"role": "tool", "content": [result]}
        calls = [
            {"type": "tool-call", "toolCallId": call["id"], "toolName": call["name"], "input": {}}
            for call in message.get("calls", ())
        ]
        return {"role": message["role"], "content": [{"type": "text", "text": "t"}, *calls]}

    def _parted(self, message):
        if "id" in message:
            part = {"type": "tool_call_response", "response": message["content"]}
            return {"role": "tool", "parts": [part | ({"id": message["id"]} if self._ids else {})]}
        calls = [
            {"type": "tool_call", **{key: call[key] for key in call if self._ids or key != "id"}}
            for call in message.get("calls", ())
        ]
        parts = [{"type": "text", "content": message["content"]}, *calls]
        return {"role": message["role"], "parts": parts}

    def _called(self, call, result):
        if self._vocabulary == "openinference":
            found = {"tool.name": call["name"], "input.value": json.dumps(call["arguments"])}
            return found | {"output.value": result, "tool_call.id": call["id"]}
        found = {"gen_ai.tool.name": call["name"], "gen_ai.tool.call.result": result}
        found["gen_ai.tool.call.arguments"] = json.dumps(call["arguments"])
        return found | ({"gen_ai.tool.call.id": call["id"]} if self._ids else {})
