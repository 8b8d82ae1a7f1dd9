"""Opens a journal and all that belongs to it, by path or URL; holds the registry of plug-ins."""
