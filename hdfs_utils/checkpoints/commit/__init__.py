"""Saving and restoring: fencing, agreement, staging."""
