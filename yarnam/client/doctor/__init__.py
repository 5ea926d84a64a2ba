"""Checks of a site."""
