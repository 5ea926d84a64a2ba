"""Gangs that grow and shrink."""
