"""Slow and broken nodes: checked before the barrier opens, noticed by their stragglers after."""
