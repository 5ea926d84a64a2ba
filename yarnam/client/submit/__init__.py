"""From a spec to an accepted application."""
