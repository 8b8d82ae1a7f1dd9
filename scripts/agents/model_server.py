"""A fake model server on loopback: the same short conversation over every model API.

A command-line agent that asks it is told to run a command that works, then one that fails, and then
gets an answer in words. The server counts what it told, so that a recording can be compared with it.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PROMPT = "Say hello, then fail, then stop."
GOOD, BAD = "echo hello-from-the-tool", "echo it-broke >&2; exit 3"
ANSWER = "All done: one command worked, one failed."
INPUT, CACHED, OUTPUT = 120, 40, 30
"""Tokens of each model call: all input, how much of it was cached, the output."""

TOOLS = {
    "Bash": "command",
    "exec_command": "cmd",
    "shell_command": "command",
    "run_shell_command": "command",
    "bash": "command",
}
"""The tools that run a command, by agent, and the name of its argument."""


@dataclass
class Told:
    """What the server told one agent."""

    requests: list[tuple[str, str]] = field(default_factory=list)
    """The path of each request, and what it was answered with."""
    calls: int = 0
    side_calls: int = 0
    """Model calls outside of the conversation, such as one for a title; they cost tokens too."""
    bodies: list[Any] = field(default_factory=list)


class Reply:
    """The next step of the conversation: a command to run, or words."""

    def __init__(self, n: int, tool: str | None) -> None:
        self.tool = tool
        self.command = (GOOD, BAD)[n] if tool is not None and n < 2 else None
        self.id = f"call_{n + 1}"
        self.n = n
        self.text = None if self.command else (ANSWER if tool is not None else "A short title")

    @property
    def arguments(self) -> dict[str, str]:
        assert self.tool
        assert self.command
        given = {TOOLS[self.tool]: self.command}
        if self.tool in ("Bash", "bash"):
            given["description"] = "runs a command"
        return given


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    told: Told

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.told.requests.append((self.path, "list"))
        model = {"id": "fake-model", "object": "model", "created": 0, "owned_by": "nobody"}
        self._json({"object": "list", "data": [model], "models": []})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        path = self.path.partition("?")[0]
        self.told.bodies.append((path, body))
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": INPUT})
        elif path.endswith(":countTokens"):
            self._json({"totalTokens": INPUT})
        elif path.endswith("/messages"):
            self._anthropic(body)
        elif path.endswith("/responses"):
            self._responses(body)
        elif path.endswith("/chat/completions"):
            self._chat(body)
        elif "enerateContent" in path:
            self._gemini(body, stream="stream" in path)
        else:
            self.told.requests.append((path, "nothing"))
            self._json({})

    def _reply(self, names: list[str], results: int) -> Reply:
        tool = next((name for name in TOOLS if name in names), None)
        reply = Reply(results, tool)
        if tool is None:
            self.told.side_calls += 1
        else:
            self.told.calls += 1
        self.told.requests.append((self.path, reply.command or reply.text or ""))
        return reply

    def _anthropic(self, body: dict[str, Any]) -> None:
        blocks = [
            block
            for message in body.get("messages", ())
            if isinstance(message.get("content"), list)
            for block in message["content"]
        ]
        results = sum(block.get("type") == "tool_result" for block in blocks)
        reply = self._reply([each.get("name", "") for each in body.get("tools", ())], results)
        model = body.get("model", "fake-model")
        usage = {
            "input_tokens": INPUT - CACHED, "cache_read_input_tokens": CACHED,
            "cache_creation_input_tokens": 0, "output_tokens": OUTPUT,
        }  # fmt: skip  # one table
        content: dict[str, Any]
        if reply.command:
            content = {"type": "tool_use", "id": f"toolu_{reply.id}", "name": reply.tool,
                       "input": reply.arguments}  # fmt: skip
        else:
            content = {"type": "text", "text": reply.text}
        stop = "tool_use" if reply.command else "end_turn"
        head = {"id": f"msg_{len(self.told.requests)}", "type": "message", "role": "assistant",
                "model": model, "stop_sequence": None}  # fmt: skip
        if not body.get("stream"):
            self._json({**head, "content": [content], "stop_reason": stop, "usage": usage})
            return
        begin = {**content, "input": {}} if reply.command else {**content, "text": ""}
        delta = (
            {"type": "input_json_delta", "partial_json": json.dumps(reply.arguments)}
            if reply.command
            else {"type": "text_delta", "text": reply.text}
        )
        first = {**head, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        self._events(
            [
                {"type": "message_start", "message": first},
                {"type": "content_block_start", "index": 0, "content_block": begin},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None},
                 "usage": usage},
                {"type": "message_stop"},
            ]
        )  # fmt: skip

    def _responses(self, body: dict[str, Any]) -> None:
        items = body.get("input") if isinstance(body.get("input"), list) else []
        results = sum(str(each.get("type", "")).endswith("call_output") for each in items)
        names = [each.get("name", "") for each in body.get("tools") or ()]
        reply = self._reply(names, results)
        id = f"resp_{len(self.told.requests)}"
        item: dict[str, Any]
        if reply.command:
            item = {"type": "function_call", "id": f"fc_{reply.id}", "call_id": reply.id,
                    "name": reply.tool, "arguments": json.dumps(reply.arguments),
                    "status": "completed"}  # fmt: skip
        else:
            text = {"type": "output_text", "text": reply.text, "annotations": []}
            item = {"type": "message", "id": f"msg_{id}", "role": "assistant", "content": [text],
                    "status": "completed"}  # fmt: skip
        usage = {
            "input_tokens": INPUT, "input_tokens_details": {"cached_tokens": CACHED},
            "output_tokens": OUTPUT, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT + OUTPUT,
        }  # fmt: skip  # one table
        done = {"id": id, "object": "response", "created_at": 0, "status": "completed",
                "model": body.get("model"), "output": [item], "usage": usage}  # fmt: skip
        if not body.get("stream"):
            self._json(done)
            return
        begun = {**done, "status": "in_progress", "output": [], "usage": None}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
        events.append({"type": "response.output_item.added", "output_index": 0,
                       "item": {**item, "status": "in_progress"}})  # fmt: skip
        if reply.text:
            events.append({"type": "response.output_text.delta", "item_id": item["id"],
                           "output_index": 0, "content_index": 0, "delta": reply.text})  # fmt: skip
        events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
        events.append({"type": "response.completed", "response": done})
        for n, event in enumerate(events):
            event["sequence_number"] = n
        self._events(events)

    def _chat(self, body: dict[str, Any]) -> None:
        results = sum(each.get("role") == "tool" for each in body.get("messages", ()))
        names = [each.get("function", {}).get("name", "") for each in body.get("tools") or ()]
        reply = self._reply(names, results)
        head = {"id": f"chatcmpl-{len(self.told.requests)}", "created": 0,
                "model": body.get("model", "fake-model")}  # fmt: skip
        message: dict[str, Any] = {"role": "assistant", "content": reply.text}
        if reply.command:
            function = {"name": reply.tool, "arguments": json.dumps(reply.arguments)}
            message["tool_calls"] = [
                {"index": 0, "id": reply.id, "type": "function", "function": function}
            ]
        reason = "tool_calls" if reply.command else "stop"
        usage = {
            "prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT,
            "prompt_tokens_details": {"cached_tokens": CACHED},
        }  # fmt: skip  # one table
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self._json({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        chunk = {**head, "object": "chat.completion.chunk"}
        ends = {"index": 0, "delta": {}, "finish_reason": reason}
        whole = {"index": 0, "delta": message, "finish_reason": None}
        self._events(
            [{**chunk, "choices": [whole]}, {**chunk, "choices": [ends]},
             {**chunk, "choices": [], "usage": usage}], named=False)  # fmt: skip

    def _gemini(self, body: dict[str, Any], *, stream: bool) -> None:
        parts = [part for each in body.get("contents", ()) for part in each.get("parts", ())]
        results = sum("functionResponse" in part for part in parts)
        tools = [
            each
            for tool in body.get("tools") or ()
            for each in tool.get("functionDeclarations", ())
        ]
        reply = self._reply([each.get("name", "") for each in tools], results)
        part: dict[str, Any]
        if reply.command:
            part = {"functionCall": {"id": reply.id, "name": reply.tool, "args": reply.arguments}}
        else:
            text = reply.text
            if "responseSchema" in str(body) or "responseJsonSchema" in str(body):
                text = json.dumps({"reasoning": "short", "complexity_reasoning": "short",
                                   "model_choice": "flash", "complexity_score": 1,
                                   "next_speaker": "user"})  # fmt: skip
            part = {"text": text}
        answer = {
            "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]},
                            "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": INPUT, "cachedContentTokenCount": CACHED,
                              "candidatesTokenCount": OUTPUT, "totalTokenCount": INPUT + OUTPUT},
            "modelVersion": "gemini-fake", "responseId": f"r{len(self.told.requests)}",
        }  # fmt: skip  # one table
        if stream:
            self._events([answer], named=False, done=False)
        else:
            self._json(answer)

    def _events(
        self, events: list[dict[str, Any]], *, named: bool = True, done: bool = True
    ) -> None:
        lines = []
        for event in events:
            lines += [f"event: {event['type']}\n"] if named else []
            lines.append(f"data: {json.dumps(event)}\n\n")
        if done and not named:
            lines.append("data: [DONE]\n\n")
        self._send("".join(lines).encode(), "text/event-stream")

    def _json(self, answer: Any) -> None:
        self._send(json.dumps(answer).encode(), "application/json")

    def _send(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def model_server() -> Iterator[tuple[str, Told]]:
    """The address of a server, as long as the block runs, and what it told."""
    told = Told()
    handler = type("_Handler", (Handler,), {"told": told})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
