"""jsonl: the run's own lines, byte for byte; with a proof file, anyone can verify them."""

from collections.abc import Iterator

from tracklog.formats.exporters import Exporter, ExportRun, Option, Options, full_lines
from tracklog.formats.loss import Fate
from tracklog.journal.frame import head


def write(run: ExportRun, options: Options) -> Iterator[bytes]:
    frames = options["frames"] == "yes"
    for entry in run.lines():
        record = entry.record
        if record.erased is not None:
            continue  # its tombstone is in the proof
        if frames:
            start = b'{"seq":%d,"received":"%b"' % (record.seq, record.received.encode())
            names = (record.dialect, record.family, record.run)
            more = (record.redacted, record.mark, record.group)
            yield start + head(*names, *more) + record.line + b"}\n"
        else:
            yield record.line + b"\n"


def fates(_options: Options) -> dict[str, Fate]:
    return full_lines("kept")


exporter = Exporter(
    name="jsonl",
    about="The run's own lines, byte for byte, with a proof beside them.",
    media_type="application/x-ndjson",
    suffix=".jsonl",
    write=write,
    fates=fates,
    proof="beside",
    options={
        "frames": Option("Each line as the complete record of the journal.", ("no", "yes"), "no")
    },
)
