"""The messages of a run, as a client that received its events has them."""

from typing import Any

Message = dict[str, Any]


class Messages:
    """The messages, kept only where a snapshot may need them, so that a long run takes no memory."""

    def __init__(self, *, keeps: bool) -> None:
        self._keeps = keeps
        self._said: dict[str, Message] = {}
        self._results: dict[str, list[Message]] = {}
        self._callers: dict[str, str] = {}

    def said(self, id: str, role: str, words: str, name: str | None = None) -> None:
        if self._keeps:
            named = {"name": name} if name is not None else {}
            self._said[id] = {"id": id, "role": role, "content": words, **named}

    def sealed(self, id: str, opaque: str) -> None:
        """Add the encrypted part of a message."""
        if id in self._said:
            self._said[id]["encryptedValue"] = opaque

    def called(self, id: str, call: str, tool: str, arguments: str) -> None:
        """Add a call to the message in which it was made."""
        if self._keeps:
            message = self._said.setdefault(id, {"id": id, "role": "assistant"})
            function = {"name": tool, "arguments": arguments}
            entry = {"id": call, "type": "function", "function": function}
            message.setdefault("toolCalls", []).append(entry)
            self._callers[call] = id

    def returned(self, id: str, call: str, content: str) -> None:
        """Add a result directly after its call, however late it came: models require that order."""
        if self._keeps:
            result = {"id": id, "role": "tool", "toolCallId": call, "content": content}
            if call in self._callers:
                self._results.setdefault(self._callers[call], []).append(result)
            else:
                self._said[id] = result

    def snapshot(self) -> list[Message]:
        return [
            each
            for id, message in self._said.items()
            for each in (message, *self._results.get(id, ()))
        ]
