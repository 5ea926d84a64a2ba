"""Programs that other Pythons run: they import nothing of yarnam."""
