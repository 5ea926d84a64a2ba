"""The way from a spec to an accepted application."""
