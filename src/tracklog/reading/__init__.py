"""The one walk: from records to events, facts and findings, and whether each record counts."""
