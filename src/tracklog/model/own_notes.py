"""What tracklog itself records: the runs of its own, and the labels of its notes on other runs."""

OWN_FAMILY = "tracklog"
"""The family of these runs, and the name of the dialect in which tracklog writes."""
OWN_RUNS = frozenset({"alerts", "operations", "settings", "tokens"})
"""The runs of the native family in which tracklog records what was done to itself."""
IMPORTED = "imported"
"""The label of the note that lines of a run were imported from a file of its dialect."""
PRUNE = "prune"
"""The label of the note that records up to a number are deleted, in the run `operations`."""
PRUNED = "pruned"
"""The label of the note that a run has lost records."""
OWN_LABELS = ("source-gone", "erasure", PRUNED, "completed", IMPORTED)
"""Notes that tracklog itself adds to a run."""
HOST_LABELS = (
    "cancel-requested",
    "pause-requested",
    "resume-requested",
    "stop-requested",
    "idempotent-request",
    "answer-refused",
)
"""Notes of hosts on their runs: what was asked of them beside the events, and what they replied."""
