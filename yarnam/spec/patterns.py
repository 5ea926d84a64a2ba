"""Patterns in an input's path: ``/data/2024-*/part-*.tfrecord``."""

from __future__ import annotations

WILDCARDS = "*?["


def split_pattern(path: str) -> tuple[str, str]:
    """The directory that a pattern begins in, and the pattern below it; without wildcards the
    path itself and nothing."""
    parts = path.rstrip("/").split("/")
    for number, part in enumerate(parts):
        if any(char in part for char in WILDCARDS):
            return "/".join(parts[:number]) or "/", "/".join(parts[number:])
    return path, ""
