"""The vocabulary: events, facts, findings, errors and lines; data without behaviour of its own."""
