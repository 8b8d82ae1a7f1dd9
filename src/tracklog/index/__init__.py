"""The folds' states and the word search, kept up to date behind the journal; a cache."""
