"""Watches over a running gang: the observers of the core, its room to grow, its queue's policy."""
