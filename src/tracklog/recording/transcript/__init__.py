"""Read transcripts: tolerant of damage, and every problem is reported.

`TranscriptReader` yields events and flaws, `Follow` does so while the file grows, `load` and `tree` give the
runs, `repair` repairs a damaged file, `verify_chain` verifies the hash chain.
"""

from tracklog.recording.transcript.chain import ChainCheck, verify_chain
from tracklog.recording.transcript.entry import Entry
from tracklog.recording.transcript.follow import Follow
from tracklog.recording.transcript.lint import lint
from tracklog.recording.transcript.reader import Flaw, TranscriptEvent, TranscriptReader
from tracklog.recording.transcript.repair import (
    RepairedLine,
    RepairReport,
    examine,
    repair,
    repaired_lines,
)
from tracklog.recording.transcript.state import State, is_locked, state_of
from tracklog.recording.transcript.tools import TranscriptCall
from tracklog.recording.transcript.tree import RunNode, tree
from tracklog.recording.transcript.views import MessageView, TranscriptRun, TranscriptStep, load

__all__ = [
    "ChainCheck",
    "Entry",
    "Flaw",
    "Follow",
    "MessageView",
    "RepairReport",
    "RepairedLine",
    "RunNode",
    "State",
    "TranscriptCall",
    "TranscriptEvent",
    "TranscriptReader",
    "TranscriptRun",
    "TranscriptStep",
    "examine",
    "is_locked",
    "lint",
    "load",
    "repair",
    "repaired_lines",
    "state_of",
    "tree",
    "verify_chain",
]
