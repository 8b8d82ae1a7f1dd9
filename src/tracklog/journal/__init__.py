"""Numbered records in commit groups: how they are stored, verified, pruned and backed up."""
