"""The load, in a process of its own: reads what to do as JSON, prints how long it took."""

import asyncio
import json
import resource
import statistics
import sys
import time

import uvloop

LINE = (
    '{"ts":"2026-05-05T09:00:01.000Z","run_id":"run-%d","event":"tool_invocation",'
    '"agent_id":"coder:a","step":%d,"tool_name":"Read","duration_s":0.25,"ok":true,"x":"%s"}'
)


def request(port: int, lines: list[str], array: bool = False) -> bytes:
    body = f"[{','.join(lines)}]" if array else "".join(line + "\n" for line in lines)
    kind = "json" if array else "x-ndjson"
    return (
        f"POST /api/events/kahn-agent HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: application/{kind}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


class Poster(asyncio.Protocol):
    """Sends the next request when the last one was answered."""

    def __init__(self, requests, done, delays=None):
        self.requests, self.done = requests, done
        self.heard = b""
        self.delays = [] if delays is None else delays

    def connection_made(self, transport):
        self.transport = transport
        self.next()

    def next(self):
        said = next(self.requests, None)
        if said is None:
            self.transport.close()
            if not self.done.done():
                self.done.set_result(None)
        else:
            self.sent = time.perf_counter()
            self.transport.write(said)

    def data_received(self, data):
        self.heard += data
        head, mark, body = self.heard.partition(b"\r\n\r\n")
        if not mark:
            return
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) >= size:
            if not head.startswith(b"HTTP/1.1 200"):
                self.done.set_exception(RuntimeError(self.heard[:500].decode()))
            self.heard = b""
            self.delays.append(time.perf_counter() - self.sent)
            self.next()


async def delayed(port, count, batch, connections):
    """The same, with the delay that 99 of 100 requests do not exceed."""
    delays = []
    took = await post(port, count, batch, connections, False, delays)
    delays.sort()
    return {"seconds": took, "p99": delays[int(len(delays) * 0.99)]}


async def post(port, count, batch, connections, array, delays=None):
    """Seconds for so many requests of so many lines."""
    kinds = [
        request(port, [LINE % (n, k, "y" * 300) for k in range(batch)], array) for n in range(20)
    ]
    requests = (kinds[n % len(kinds)] for n in range(count))
    loop = asyncio.get_running_loop()
    dones = [loop.create_future() for _ in range(connections)]
    began = time.perf_counter()
    for done in dones:
        await loop.create_connection(lambda d=done: Poster(requests, d, delays), "127.0.0.1", port)
    await asyncio.gather(*dones)
    return time.perf_counter() - began


class Watcher(asyncio.Protocol):
    """Waits for the mark of the last event; whatever else comes is only taken in."""

    def __init__(self, port, mark):
        self.port, self.mark, self.tail = port, mark, b""
        loop = asyncio.get_running_loop()
        self.joined, self.done = loop.create_future(), loop.create_future()
        self.took: list[float] | None = None

    def connection_made(self, transport):
        self.transport = transport
        transport.write(b"GET /api/stream HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % self.port)

    def data_received(self, data):
        if not self.joined.done():
            self.joined.set_result(None)
        if self.took is not None:
            now = time.perf_counter()
            for part in data.split(b'"sent":')[1:]:
                self.took.append(now - float(part.partition(b"}")[0]))
        if self.mark in self.tail + data[-900:] and not self.done.done():
            self.done.set_result(None)
        self.tail = data[-900:]

    def connection_lost(self, error):
        if not self.done.done():
            self.done.set_exception(ConnectionError(f"the server closed a watcher: {error}"))


async def watchers(port, count, mark):
    loop = asyncio.get_running_loop()
    found = []
    for at in range(0, count, 100):
        many = [
            loop.create_connection(lambda: Watcher(port, mark), "127.0.0.1", port)
            for _ in range(min(100, count - at))
        ]
        found += [protocol for _, protocol in await asyncio.gather(*many)]
    await asyncio.gather(*(each.joined for each in found))
    await asyncio.sleep(0.2)
    return found


async def stream(port, count, events, batch):
    """Seconds until so many watchers have so many events, posted in batches."""
    crowd = await watchers(port, count, b"the-last-one")
    lines = [LINE % (0, n, "y" * 60) for n in range(events - 1)] + [
        LINE % (0, events, "the-last-one")
    ]
    bodies = [request(port, lines[at : at + batch]) for at in range(0, events, batch)]
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    began = time.perf_counter()
    await loop.create_connection(lambda: Poster(iter(bodies), done), "127.0.0.1", port)
    await asyncio.gather(done, *(each.done for each in crowd))
    took = time.perf_counter() - began
    for each in crowd:
        each.transport.close()
    return took


class Paced(asyncio.Protocol):
    """Sends when it is time, whether it was answered or not."""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        assert b"HTTP/1.1 5" not in data, data


async def paced(port, count, rate, seconds):
    """Posts single events at a rate; how late the last one was, and the delays of one watcher."""
    loop = asyncio.get_running_loop()
    crowd = await watchers(port, count, b"the-last-one") if count else []
    if crowd:
        crowd[0].took = []
    lines = []
    for _ in range(8):
        _, line = await loop.create_connection(Paced, "127.0.0.1", port)
        lines.append(line)
    total = int(rate * seconds)
    began = time.perf_counter()
    for n in range(total):
        due = began + n / rate
        if (left := due - time.perf_counter()) > 0:
            await asyncio.sleep(left)
        word = "the-last-one" if n == total - 1 else "y"
        said = (LINE % (0, n, word))[:-1] + f',"sent":{time.perf_counter()!r}}}'
        lines[n % 8].transport.write(request(port, [said]))
    sent = time.perf_counter()
    await asyncio.gather(*(each.done for each in crowd))
    late = time.perf_counter() - sent
    took = sorted(crowd[0].took) if crowd else [0.0]
    for each in (*crowd, *lines):
        each.transport.close()
    await asyncio.sleep(0.1)
    return {
        "late": late,
        "p50": statistics.median(took),
        "p99": took[int(len(took) * 0.99)],
        "posting": sent - began,
    }


def main():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    verbs = {"post": post, "delayed": delayed, "stream": stream, "paced": paced}
    for line in sys.stdin:
        verb, arguments = json.loads(line)
        print(json.dumps(uvloop.run(verbs[verb](*arguments))), flush=True)


main()
