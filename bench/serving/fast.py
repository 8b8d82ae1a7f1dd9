"""What most would write: FastAPI, the dialect's own models as a list in its body, our journal."""

import socket
import sys
from typing import Annotated, Any, Union

import uvicorn
from fastapi import FastAPI
from pydantic import Discriminator

from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.journal.journal import JournalEntry

app = FastAPI()
home = Home(sys.argv[1], durability="os")
Kinds = Union[tuple(registry.dialect("kahn-agent").kinds.values())]  # noqa: UP007  # a tuple of them
Line = Annotated[Kinds, Discriminator("event")]


@app.post("/api/events/kahn-agent")
async def events(lines: list[Line]) -> dict[str, Any]:
    entries = [
        JournalEntry(
            "kahn-agent", "kahn", line.run_id, line.model_dump_json(exclude_unset=True).encode()
        )
        for line in lines
    ]
    return {"accepted": len(entries), "last_seq": home.journal.append(entries)[-1]}


bound = socket.socket()
bound.bind(("127.0.0.1", 0))
print(bound.getsockname()[1], flush=True)
config = uvicorn.Config(app, loop="uvloop", http="httptools", log_level="error", access_log=False)
uvicorn.Server(config).run(sockets=[bound])
