"""The least that an HTTP server can do for the same admit: a protocol on uvloop and httptools.

`python raw.py HOME` prints its port. It shares one buffer among all watchers of a stream.
"""

import asyncio
import sys

import httptools
import uvloop

from tracklog.home.home import Home
from tracklog.journal.frame import seq_of

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
watchers: set[asyncio.Transport] = set()


class Raw(asyncio.Protocol):
    home: Home

    def connection_made(self, transport):
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)

    def connection_lost(self, _error):
        watchers.discard(self.transport)

    def data_received(self, data):
        self.parser.feed_data(data)

    def on_message_begin(self):
        self.url = b""
        self.body = []

    def on_url(self, url):
        self.url += url

    def on_body(self, body):
        self.body.append(body)

    def on_message_complete(self):
        if self.parser.get_method() == b"GET":
            self.transport.write(STREAM)
            watchers.add(self.transport)
            return
        home = self.home
        lines = b"".join(self.body).split(b"\n")
        if not lines[-1]:
            lines.pop()
        verdicts = home.intake.admit(lines, "kahn-agent")
        last = verdicts[-1].seq
        if watchers:
            frames = home.store.read(last - len(lines), len(lines))
            said = b"".join([b"id: %d\ndata: %b\n\n" % (seq_of(each), each) for each in frames])
            shared = b"%x\r\n%b\r\n" % (len(said), said)
            for watcher in watchers:
                watcher.write(shared)
        said = b'{"accepted":%d,"last_seq":%d}' % (len(lines), last)
        self.transport.write(HEAD % (len(said), said))


async def main():
    Raw.home = Home(sys.argv[1], durability="os")
    server = await asyncio.get_running_loop().create_server(Raw, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


uvloop.run(main())
