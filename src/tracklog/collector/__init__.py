"""The collector: HTTP around one home, for programs that send events and for everyone who watches.

`routes.py` is the one table of routes; the OpenAPI document and the reference page are derived from
it.
"""
