"""Imported by the process that others are forked from: what each would else make for itself."""

import gc
from importlib import import_module
from pkgutil import walk_packages

import tracklog
from tracklog.dialects.awf import KINDS
from tracklog.home import registry
from tracklog.hosts.workflow import router
from tracklog.recording.recorder.forms import FORMS

for module in walk_packages(tracklog.__path__, "tracklog."):
    import_module(module.name)
for name in ("rich.console", "rich.table", "uvloop"):  # read when they are needed
    import_module(name)
registry.dialects()
for group in ("tools", "steps"):
    router.entry_point_functions(group)
for kind in KINDS:
    FORMS[kind]
gc.freeze()  # what is there is shared for good
