"""The policy file of ``yarnam queues generate``: queues in GPUs, as YAML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from yarnam.core.model.resources import Resources
from yarnam.core.queues.generation import ClusterPolicy, QueuePolicy, names_of
from yarnam.errors import BadSpec, UsageError
from yarnam.spec.sections.section_base import Section
from yarnam.spec.values.fields import DurationBetween, SizeBetween
from yarnam.spec.yaml_tree import MAX_BYTES, Tree, tree_from_text

_Gpus = Annotated[int, Field(ge=0, le=1_000_000)]
_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,100}$")]
_Person = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")]
_Timeout = Annotated[float, DurationBetween(30, 86_400)]


class _Cluster(Section):
    gpus: Annotated[int, Field(ge=1, le=1_000_000)]
    memory: Annotated[int, SizeBetween(1024, 1024**4)]
    vcores: Annotated[int, Field(ge=1, le=100_000_000)]


class _Preemption(Section):
    minimum_after: _Timeout | None = None
    fair_share_after: _Timeout | None = None


class _Queue(Section):
    gpus: _Gpus = 0
    maximum: _Gpus | None = None
    oversubscription: Annotated[float, Field(ge=1, le=1000)] | None = None
    weight: Annotated[float, Field(gt=0, le=1_000_000)] = 1.0
    max_jobs: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    users: list[_Person] = Field(default_factory=list)
    groups: list[_Person] = Field(default_factory=list)
    preemptible: bool = True
    fifo: bool = False
    queues: dict[_Name, _Queue | None] = Field(default_factory=dict)


class _Policy(Section):
    version: Annotated[int, Field(ge=1, le=1)]
    cluster: _Cluster | None = None
    preemption: _Preemption = _Preemption()
    default_queue: str = ""
    queues: Annotated[dict[_Name, _Queue | None], Field(min_length=1)]


def read_policy(path: str, cluster: Resources | None = None) -> ClusterPolicy:
    """The policy in this file. ``cluster``: its size, in place of the file's. Raises BadSpec with
    every problem and its line; UsageError."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_BYTES + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    tree = tree_from_text(text, path)
    if tree.problems or not isinstance(tree.value, dict):
        raise _bad_policy(tree)
    try:
        policy = _Policy.model_validate(tree.value)
    except ValidationError as error:
        for each in error.errors(include_url=False):
            place = tuple(part for part in each["loc"] if part != "[key]")
            is_value = each["type"] != "extra_forbidden"
            tree.add(place, _message(each["type"], each["msg"]), at_value=is_value)
        raise _bad_policy(tree) from None
    if policy.cluster is not None and cluster is None:
        given = policy.cluster
        cluster = Resources(given.memory, given.vcores, given.gpus)
    if cluster is None:
        tree.add((), "has no `cluster`, and no --cluster was given: how many GPUs are there?")
        raise _bad_policy(tree)
    built = ClusterPolicy(
        cluster,
        _queues(policy.queues, tree, ("queues",), cluster.gpus),
        _seconds(policy.preemption.minimum_after),
        _seconds(policy.preemption.fair_share_after),
        _full_name(policy.default_queue),
    )
    _check(built, tree)
    if tree.problems:
        raise _bad_policy(tree)
    return built


def _bad_policy(tree: Tree) -> BadSpec:
    problems = tree.sorted_problems()
    return BadSpec("\n".join(str(problem) for problem in problems), problems=problems)


def _message(kind: str, text: str) -> str:
    if kind == "extra_forbidden":
        return "is not a key of a policy"
    return "is missing" if kind == "missing" else text


def _queues(
    found: Mapping[str, _Queue | None], tree: Tree, where: tuple[str, ...], total: int
) -> tuple[QueuePolicy, ...]:
    made = []
    for name, given in found.items():
        queue, path = given or _Queue(), (*where, name)
        if queue.maximum is not None and queue.oversubscription is not None:
            tree.add(path, "has both `maximum` and `oversubscription`: one of them is enough")
        maximum = queue.maximum
        if queue.oversubscription is not None:
            maximum = min(total, round(queue.gpus * queue.oversubscription))
        if maximum is not None and maximum < max(1, queue.gpus):
            tree.add(path, f"has a maximum of {maximum} GPUs and is guaranteed {queue.gpus}")
        below = _queues(queue.queues, tree, (*path, "queues"), total)
        if queue.fifo and below:
            tree.add(path, "has `fifo` and queues below it: only a queue that takes jobs can")
        if name == "default":
            tree.add(path, "is named default, which means `no queue specified` to YARN")
        _check_sum(below, queue.gpus or None, tree, path)
        made.append(
            QueuePolicy(
                name, queue.gpus, maximum, queue.weight, queue.max_jobs, tuple(queue.users),
                tuple(queue.groups), queue.preemptible, queue.fifo, below,
            )
        )  # fmt: skip
    return tuple(made)


def _check_sum(
    queues: tuple[QueuePolicy, ...], limit: int | None, tree: Tree, where: tuple[str, ...]
) -> None:
    together = sum(queue.gpus for queue in queues)
    if limit is not None and together > limit:
        tree.add(where, f"together they are guaranteed {together} GPUs, and there are {limit}")


def _check(policy: ClusterPolicy, tree: Tree) -> None:
    _check_sum(policy.queues, policy.cluster.gpus, tree, ("queues",))
    leaves = {name for name, is_leaf in names_of(policy.queues) if is_leaf}
    if policy.default_queue and policy.default_queue not in leaves:
        tree.add(("default_queue",), f"{policy.default_queue} is not a queue that takes jobs")
    if any(queue.gpus for queue in policy.queues) and policy.minimum_after_s is None:
        tree.add(
            ("preemption",),
            "needs `minimum_after`: guaranteed GPUs are taken back by preemption only",
        )


def _seconds(value: float | None) -> int | None:
    return None if value is None else int(value)


def _full_name(name: str) -> str:
    return name if not name or name.startswith("root.") else f"root.{name}"
