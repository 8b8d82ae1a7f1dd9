"""The Model Context Protocol: agents ask the questions of `answers`, and may ask a person.

Its tools are made from the questions. The official SDK is an extra, and imported when a server is
made.
"""
