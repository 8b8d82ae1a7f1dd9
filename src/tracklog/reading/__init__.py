"""The one walk from records to events, facts and findings, and the replay of past states."""
