"""The adapters for agent frameworks under their earlier path, `tracklog.adapters`."""

from tracklog.formats import adapters

__path__ = adapters.__path__
"""So that `tracklog.adapters.langchain` is still found."""
