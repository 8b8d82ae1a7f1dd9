"""Adapters for agent frameworks: one framework per file, recorded from inside the agent's process.

An adapter sends events to the collector at `TRACKLOG_URL`, or at http://127.0.0.1:4318. It never
waits for it and raises no error because of it: events that cannot be sent wait in a file, and the
next program that reports to the same collector sends them. The framework is imported when the
adapter is first used; if it is missing, the error says what to install.
"""
