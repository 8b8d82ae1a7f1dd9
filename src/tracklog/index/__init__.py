"""The states of the folds and the full-text search; a cache that is updated from the journal."""
