"""A stream as most write it: a queue for every watcher, and one send for every event."""

import asyncio
import socket
import sys

import uvicorn

from tracklog.home.home import Home
from tracklog.journal.frame import seq_of

home = Home(sys.argv[1], durability="os")
queues: set[asyncio.Queue] = set()
START = {"type": "http.response.start", "status": 200}


async def app(scope, receive, send):
    if scope["method"] == "GET":
        queue: asyncio.Queue = asyncio.Queue()
        queues.add(queue)
        await send({**START, "headers": [(b"content-type", b"text/event-stream")]})
        await receive()
        leaving = asyncio.ensure_future(receive())
        leaving.add_done_callback(lambda _: queue.put_nowait(None))
        while (said := await queue.get()) is not None:
            await send({"type": "http.response.body", "body": said, "more_body": True})
        queues.discard(queue)
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    lines = body.split(b"\n")
    if not lines[-1]:
        lines.pop()
    last = home.intake.admit(lines, "kahn-agent")[-1].seq
    for each in home.store.read(last - len(lines), len(lines)):
        said = b"id: %d\ndata: %b\n\n" % (seq_of(each), each)
        for queue in queues:
            queue.put_nowait(said)
    said = b'{"accepted":%d,"last_seq":%d}' % (len(lines), last)
    await send({**START, "headers": [(b"content-length", b"%d" % len(said))]})
    await send({"type": "http.response.body", "body": said})


bound = socket.socket()
bound.bind(("127.0.0.1", 0))
bound.listen(2048)
print(bound.getsockname()[1], flush=True)
options = {"loop": "uvloop", "http": "httptools", "lifespan": "off", "log_level": "error"}
uvicorn.Server(uvicorn.Config(app, access_log=False, **options)).run(sockets=[bound])
