"""Why nothing fits, and what would help."""
