"""The collector, with a stopwatch around the append inside its writer.

SIGUSR1 prints the median of the appends since the last time, in microseconds.
"""

import signal
import statistics
import sys
import time

from tracklog.collector.app import Collector
from tracklog.collector.server import listen, serve
from tracklog.home.home import Home

bound = listen("127.0.0.1", 0)
home = Home(sys.argv[1], durability="os")
taken: list[float] = []
append = home.journal.append_all


def timed(*arguments, **options):
    began = time.perf_counter()
    try:
        return append(*arguments, **options)
    finally:
        taken.append(time.perf_counter() - began)


def tell(*_):
    print(statistics.median(taken) * 1e6 if taken else 0.0, flush=True)
    taken.clear()


if "--timed" in sys.argv:
    home.journal.append_all = timed
    signal.signal(signal.SIGUSR1, tell)
serve(Collector(home), bound, lambda: print(bound.getsockname()[1], flush=True))
