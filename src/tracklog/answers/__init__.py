"""One question per file: what the command line, the HTTP API and other programs can ask."""
