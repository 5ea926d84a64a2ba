"""What a range of tasks or GPUs must satisfy, beyond the kinds of its numbers."""

from __future__ import annotations

from yarnam.spec.checks import Reporter
from yarnam.spec.document import Document
from yarnam.spec.role_sections import GpuRange, TaskRange
from yarnam.spec.tree import Path, Tree

FIXED_ROLES = {
    "ps": "the parameters are divided over the parameter servers",
    "chief": "a gang has one chief",
    "evaluator": "a gang has one evaluator",
}
"""Roles whose number of tasks cannot change between a checkpoint and the next start."""


def check_elastic(document: Document, tree: Tree) -> None:
    """Add to the tree's problems what makes no sense of the document's ranges."""
    say = Reporter(tree)
    ranges: dict[Path, TaskRange | GpuRange] = {}
    if isinstance(document.gpus, GpuRange):
        ranges["gpus",] = document.gpus
    for name, role in (document.roles or {}).items():
        if isinstance(role.tasks, TaskRange):
            path: Path = ("roles", name, "tasks")
            ranges[path] = role.tasks
            if name in FIXED_ROLES:
                say.say(path, f"role {name} cannot be elastic: {FIXED_ROLES[name]}", (path,))
    for path, limits in ranges.items():
        _check_range(path, limits, say)
    first, *others = [*ranges, ()]
    for path in others[:-1]:
        say.say(path, f"one role of a job can be elastic, and {first[1]} is", (path,))
    elastic: Path = ("elastic",)
    if not ranges and say.has(elastic):
        say.say(
            elastic,
            "nothing of this job is elastic: write a range, as in tasks: {min: 2, max: 4} at a"
            " role, or gpus: {min: 4, max: 16}",
            (elastic, ("gpus",), ("roles",)),
        )


def _check_range(path: Path, limits: TaskRange | GpuRange, say: Reporter) -> None:
    low, high = (*path, "min"), (*path, "max")
    if limits.min > limits.max:
        say.say(low, f"min {limits.min} is more than max {limits.max}", (low, high))
    elif limits.min == limits.max:
        say.say(
            path,
            f"min and max are the same: write {path[-1]}: {limits.max} for a gang of one size",
            (low, high),
        )
