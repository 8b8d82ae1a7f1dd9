"""Imported by the process that others are forked from: what each would else make for itself."""

from tracklog import registry
from tracklog.dialects.awf import KINDS
from tracklog.hosts.workflow import engine, processes, router
from tracklog.recorder.forms import FORMS

__all__ = ["engine", "processes"]

registry.dialects()
for group in ("tools", "steps"):
    router.outside(group)
for kind in KINDS:
    FORMS[kind]
