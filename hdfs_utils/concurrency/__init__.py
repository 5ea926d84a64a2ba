"""Deadlines, retries, pools and locks between processes."""
