"""Foreign formats in and out: importers, exporters, conversion, following files, recording a command."""
