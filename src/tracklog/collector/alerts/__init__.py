"""Alerts: rules over the answers, incidents that begin and end, and messages about them.

Rules are a YAML file. Each change of an incident is recorded in the run `alerts`, so that it is on
record who was told what, and when.
"""

from tracklog.journal.frame import Run

RUN: Run = ("tracklog", "alerts")
"""The run that holds the changes of incidents; rules see of it only refused checkpoints."""
REFUSED = "witness-refused"
"""The label of the note that a witness refused a checkpoint."""
NOT_SIGNED = "not-signed"
"""The label of the note that no checkpoint was made, because the journal was rewritten."""
