"""How long the chaos lasts: `make chaos` sets TRACKLOG_SOAK to make it longer and different."""

import os

SOAK = int(os.environ.get("TRACKLOG_SOAK", "1"))
"""How many times the usual."""

SEED = 7 if SOAK == 1 else None
"""The same chaos in every test run, another one in every soak."""
