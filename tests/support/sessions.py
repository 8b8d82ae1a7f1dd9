"""Sessions of agents as their programs write them, without an end."""

from itertools import count

SESSION = "cfa1e878-62b5-4e40-b281-bbf9b250d766"
AT = "2026-05-05T09:00:00.000Z"


def claude():
    for n in count():
        frame = {"sessionId": SESSION, "cwd": "/tmp", "version": "2", "timestamp": AT}
        called = {"type": "tool_use", "id": f"call{n}", "name": "Task", "input": {"prompt": f"{n}"}}
        usage = {"input_tokens": 1, "output_tokens": n}
        said = {"id": f"m{n}", "model": "x", "content": [called], "usage": usage}
        yield {"type": "assistant", "uuid": f"a{n}", "message": said, "requestId": f"r{n}", **frame}
        side = {"role": "user", "content": f"prompt {n}"}
        yield {"type": "user", "uuid": f"s{n}", "isSidechain": True, "message": side, **frame}
        yield {"type": "last-prompt", "lastPrompt": f"{n}", "sessionId": SESSION}
