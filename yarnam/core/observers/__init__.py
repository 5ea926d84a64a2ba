"""Observers of a running gang: one module each, and one table (``observer_registry``)."""
