"""Resolves what a job ships: files, code, environments."""
