"""HTTP machinery that the collector and the hosts share: router, bodies, limits, guard, log lines."""
