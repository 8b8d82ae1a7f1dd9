"""A journal on PostgreSQL: its tables, its connections, and what is read and written there.

Nothing of it is imported unless a URL begins with `postgresql:`.
"""
