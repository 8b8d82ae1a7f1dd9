"""The vocabulary: events, facts, findings, errors and lines; data with no behaviour of its own."""
