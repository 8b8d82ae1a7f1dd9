"""A player on a model server: writes the prompt, and reads the reply."""

from typing import Any

import orjson

from tracklog import Body
from tracklog.hosts import _endpoint
from tracklog.hosts._endpoint import ModelFailed
from tracklog.hosts.fishbowl.manifest import REFLECTION
from tracklog.hosts.fishbowl.models import PlayerReply, Prompt


class PlayerEndpoint:
    """Asks one model of one server; `https://host/v1#model` names both."""

    offline = False

    def __init__(self, url: str, key: str, *, patience: float = _endpoint.PATIENCE) -> None:
        self._server = _endpoint.Endpoint(url, key, patience=patience)
        self.name = self._server.name

    def reply(self, prompt: Prompt) -> PlayerReply | None:
        lines: list[bytes] = []
        self._server.ask_now(_endpoint.question(messages(prompt)), lines.append)
        answer = _endpoint.text_in(lines)
        return reply_in(answer.text, prompt, answer.usage.get("total_tokens", 0))

    def close(self) -> None:
        """Close its connections."""
        self._server.close_now()


def messages(prompt: Prompt) -> Any:
    """The prompt as text: who the player is, what it knows, and which form the answer must have."""
    player = prompt.player
    about = [
        f"You are {player.name}. {player.persona}",
        f"The goal: {prompt.goal}",
        f"The scene: {prompt.scene}",
        f"With you on the stage: {', '.join(prompt.others) or 'nobody'}.",
    ]
    if prompt.secret:
        about.append(f"What only you know: {prompt.secret}")
    keys = ["kind", "text", *player.output_extra_fields]
    about.append(
        f"Answer with one JSON object with the keys {', '.join(keys)}. kind is one of:"
        f" {', '.join(prompt.kinds)}. text is what you say, two sentences at most."
        ' Answer {"kind": null} to stay silent.'
    )
    if "winner" in player.output_extra_fields:
        about.append("winner is the exact name of who wins, or null.")
    if "scores" in player.output_extra_fields:
        about.append("scores is an object: for each player a number from 0 to 10.")
    if prompt.kinds == [REFLECTION]:
        about.append("Say in one sentence what you have come to believe.")
    rows = [f"{each.actor} [{each.kind}]: {each.text}" for each in prompt.recall]
    now = "\n".join(rows) or "Nothing was said yet."
    if prompt.correction:
        now += f"\n\nYour last answer could not be taken: {prompt.correction}"
    return [
        {"role": "system", "content": "\n".join(about)},
        {"role": "user", "content": f"{now}\n\nIt is your turn, {player.name}."},
    ]


def reply_in(output: str, prompt: Prompt, tokens: int) -> PlayerReply | None:
    """The reply in the output of a model: the JSON object in it, or else all of it as text."""
    body = _object(output)
    if body is None:
        if not output.strip():
            raise ModelFailed(f"the model of {prompt.player.name} gave an empty reply")
        body = {"text": output.strip()}
    if "kind" in body and body["kind"] is None:
        return None
    kind = body.pop("kind", None)
    if not isinstance(kind, str):
        if not prompt.kinds:
            return None
        kind = prompt.kinds[0]
    return PlayerReply(kind, body, tokens)


def _object(text: str) -> Body | None:
    """The JSON object in a text, which may be in a code block or between sentences."""
    begin, end = text.find("{"), text.rfind("}")
    if begin < 0 or end < begin:
        return None
    try:
        body = orjson.loads(text[begin : end + 1])
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None
