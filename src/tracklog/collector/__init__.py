"""The collector: HTTP around one home, for a fleet that reports and everyone who watches.

`routes.py` is the one table of what can be asked; it mounts the routes, and the OpenAPI document
and the reference page are made of it.
"""
