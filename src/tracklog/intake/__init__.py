"""The one way in: lines are judged by their dialect, recognised if they are duplicates, and appended."""
