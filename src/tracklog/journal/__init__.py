"""The journal: numbered records in commit groups, how they are stored, proven, pruned and backed up."""
