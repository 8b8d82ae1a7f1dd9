"""Opens a journal with everything that belongs to it, by path or URL; holds the registry of plugs."""
