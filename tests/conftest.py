"""What all tests share."""

import os
import resource
import signal
import sys
from pathlib import Path

from hypothesis import settings

from support.closing import closes  # noqa: F401  # a fixture
from support.soaking import SOAK
from support.tallying import table, tally  # noqa: F401  # a fixture

settings.register_profile(
    "tracklog",
    deadline=None,  # a busy machine is no failure
    max_examples=100 * SOAK,
    derandomize=SOAK == 1,  # `make chaos` looks for new examples, `make test` repeats its own
)
settings.load_profile("tracklog")

WISHES = ("tracklog_", "otel_", "no_color", "force_color", "clicolor", "columns", "lines")
PROXIES = ("http_proxy", "https_proxy", "all_proxy")
OURS = ("TRACKLOG_SOAK", "TRACKLOG_REFRESH")
for name in list(os.environ):  # what a person may have set for programs that are tested here
    if name.lower().startswith((*WISHES, *PROXIES)) and name not in OURS:
        del os.environ[name]

# A job in the background of a shell ignores interrupts, and so would all that is started here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests of crashes leave the files of the stores open that they give up, as a crash would not.
FILES = 8192
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
if soft != resource.RLIM_INFINITY and soft < FILES:
    most = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))

if (node := Path(sys.prefix) / "node").is_dir():  # set-up found none on this machine that fits
    os.environ["PATH"] = f"{node}:{os.environ.get('PATH', os.defpath)}"


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_terminal_summary(terminalreporter):
    """What the tests of crashes counted, over all processes that ran them."""
    rows = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in report.user_properties
        if name == "crash"
    ]
    if rows:
        terminalreporter.section("crashes")
        for line in table(rows):
            terminalreporter.write_line(line)
