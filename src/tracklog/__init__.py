"""A flight recorder for agent fleets."""

__version__ = "0.1.0"
