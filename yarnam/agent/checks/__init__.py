"""Measures the node for the check before the barrier."""
