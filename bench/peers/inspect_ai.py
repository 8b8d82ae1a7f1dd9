"""CPU seconds per event for the same story in an inspect_ai transcript, each event written as JSON."""

import sys
import time

# A script's own folder comes first in the path, and this file has the name of the package.
sys.path.pop(0)

import json
from pathlib import Path

from inspect_ai.event import InfoEvent, ModelEvent, SpanBeginEvent, SpanEndEvent, ToolEvent
from inspect_ai.log._transcript import Transcript
from inspect_ai.model import GenerateConfig, ModelOutput


def event(kind, payload, path):
    """The event that inspect_ai has for it."""
    match kind:
        case "step.started":
            return SpanBeginEvent(id=path, name=payload["name"], type=payload["kind"])
        case "step.completed":
            return SpanEndEvent(id=path)
        case "tool.call" | "tool.result":
            return ToolEvent(
                id=payload["call_id"],
                function=payload["name"],
                arguments=payload["input"],
                result=payload["output"] or "",
            )
        case "message.assistant":
            text = "".join(block.get("text", "") for block in payload["blocks"])
            return ModelEvent(
                model="mock/model",
                input=[],
                tools=[],
                tool_choice="auto",
                config=GenerateConfig(),
                output=ModelOutput.from_content("mock/model", text),
            )
        case _:
            return InfoEvent(source=path, data=payload)


def main():
    story = json.loads(Path(sys.argv[1]).read_bytes())

    def record(file):
        transcript = Transcript()
        if file:
            transcript._subscribe(lambda each: file.write(each.model_dump_json().encode() + b"\n"))
        for kind, payload, path in story:
            transcript._event(event(kind, payload, path))

    with Path(sys.argv[2], "inspect.jsonl").open("ab", buffering=0) as written:
        taken = {None: [], written: []}
        for _ in range(4):  # the first round is to get warm
            for file, seconds in taken.items():
                began = time.process_time()
                record(file)
                seconds.append((time.process_time() - began) / len(story))
        for seconds in taken.values():
            print(min(seconds[1:]))


main()
