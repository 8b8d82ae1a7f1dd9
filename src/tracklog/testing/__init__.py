"""Test suites for plug-ins, and helpers for tests of your own.

A new store:

    class TestMine(StoreSuite):
        def open(self, where):
            return MyStore(where)

A new storage, in the same way, with `StorageSuite`, `BlobSuite`, `RefusedSuite`, `OffsetsSuite`.
One that many processes share also passes `ProcessSuite` and `CrashSuite`:

    class TestMineShared(ProcessSuite, CrashSuite):
        def url(self, where):
            return f"mine:{where}"

A new index, in the same way: `class TestMine(IndexSuite)`.
A new importer:

    class TestMine(ImporterSuite):
        importer = my_importer
        samples = Path("samples/mine")

A new format, in the same way: `class TestMine(ExporterSuite)` with its `exporter`.
"""

from tracklog.testing.exporters import ExporterSuite
from tracklog.testing.importers import ImporterSuite, built, damaged, lines_of_file
from tracklog.testing.indexes import IndexSuite
from tracklog.testing.processes import CrashSuite, ProcessSuite
from tracklog.testing.storages import BlobSuite, OffsetsSuite, RefusedSuite, StorageSuite
from tracklog.testing.stores import Clock, StoreSuite, frames_of, memory_journal

__all__ = [
    "BlobSuite",
    "Clock",
    "CrashSuite",
    "ExporterSuite",
    "ImporterSuite",
    "IndexSuite",
    "OffsetsSuite",
    "ProcessSuite",
    "RefusedSuite",
    "StorageSuite",
    "StoreSuite",
    "built",
    "damaged",
    "frames_of",
    "lines_of_file",
    "memory_journal",
]
