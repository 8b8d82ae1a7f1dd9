"""The one way in: lines are checked or refused, duplicates recognised, the rest appended."""
