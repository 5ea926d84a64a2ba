"""Statuses of running jobs, read again and again."""
