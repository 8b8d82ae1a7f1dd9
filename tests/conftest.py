"""What all tests share."""

import os
import signal
import sys
from pathlib import Path

from hypothesis import settings

from support.closing import closes  # noqa: F401  # a fixture
from support.soaking import SOAK

settings.register_profile(
    "tracklog",
    deadline=None,  # a busy machine is no failure
    max_examples=100 * SOAK,
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

if (node := Path(sys.prefix) / "node").is_dir():  # set-up found none on this machine that fits
    os.environ["PATH"] = f"{node}:{os.environ.get('PATH', os.defpath)}"


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_terminal_summary(terminalreporter):
    """What the crash tests counted, over all processes that ran them."""
    columns = ("kills", "inside", "acknowledged", "lost", "doubled", "faults")
    found = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in report.user_properties
        if name == "crash"
    ]
    if not found:
        return
    total = {name: sum(row.get(name, 0) for row in found) for name in columns}
    terminalreporter.section("crashes")
    for row in [dict.fromkeys(columns), *sorted(found, key=lambda row: row["way"]), total]:
        cells = (
            name if row.get("way") is None and row is not total else row.get(name, 0)
            for name in columns
        )
        way = row.get("way") or ("in all" if row is total else "")
        terminalreporter.write_line(f"{way:<20}" + "".join(f"{cell:>14}" for cell in cells))
