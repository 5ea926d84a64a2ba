"""Which node has which model of GPU: what administrators say, what YARN knows, what agents saw.

Models are free text ("NVIDIA A100-SXM4-80GB"). Two texts name the same model when they have the
same words, whatever their case and order of punctuation; what a job wants ("A100") is met by a
model that has all of its words.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_spec import ANY_GPU_MODEL, SAME_GPU_MODEL, JobSpec
from yarnam.core.model.snapshot import ClusterSnapshot, Node

_WORD = re.compile(r"[a-z0-9]+")
_MAKERS = frozenset({"nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "intel"})
"""Makers and product lines, which drivers put before some names and leave out before others (the
same card has been "Tesla V100-SXM2-16GB" and "NVIDIA V100-SXM2-16GB")."""


@lru_cache(maxsize=4096)
def words_of(model: str) -> frozenset[str]:
    """The words that distinguish models."""
    words = frozenset(_WORD.findall(model.lower()))
    return words - _MAKERS or words


def is_same_model(one: str, other: str) -> bool:
    """Whether two names mean one model; an unknown one (empty) is never the same as any."""
    return bool(one and other) and words_of(one) == words_of(other)


def may_be_same(one: str, other: str) -> bool:
    """Whether one name is a part of the other: administrators write ``A100``, drivers ``NVIDIA
    A100-SXM4-80GB``."""
    words, others = words_of(one), words_of(other)
    return bool(one and other) and (words <= others or others <= words)


@lru_cache(maxsize=4096)
def has_words(model: str, wanted: str) -> bool:
    """Whether a model is what is wanted: ``A100`` is met by ``NVIDIA A100-SXM4-80GB``, but not by
    ``A10``."""
    return bool(model) and words_of(wanted) <= words_of(model)


def close_models(wanted: str, models: Iterable[str]) -> list[str]:
    """Models that the user may have meant, the likeliest first."""
    by_words = {" ".join(sorted(words_of(model))): model for model in models}
    by_part = {word: model for model in models for word in sorted(words_of(model))}
    asked = " ".join(sorted(words_of(wanted)))
    found = [by_words[key] for key in difflib.get_close_matches(asked, by_words, n=3)]
    found += [by_part[key] for key in difflib.get_close_matches(asked, by_part, n=3)]
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class GpuModelRules:
    """The administrators' inventory, as pairs of a pattern (``gpu-a*``, as file names have them;
    case counts) and a model. The first that matches counts; nodes before labels before racks."""

    nodes: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    """Patterns by YARN node label."""
    racks: tuple[tuple[str, str], ...] = ()

    def model_of(self, node: NodeId, rack: RackId, labels: Iterable[str] = ()) -> str:
        """Empty means the rules say nothing of it."""
        return (
            _first(self.nodes, (node,))
            or _first(self.labels, tuple(labels))
            or _first(self.racks, (rack,))
        )

    @property
    def is_empty(self) -> bool:
        return not (self.nodes or self.labels or self.racks)


def _first(rules: tuple[tuple[str, str], ...], names: tuple[str, ...]) -> str:
    for pattern, model in rules:
        if any(fnmatchcase(name, pattern) for name in names):
            return model
    return ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Models by node, learnt from the agents' ``nvidia-smi``. The store that keeps it (ZooKeeper,
    HDFS) passes it on as this value."""

    models: Mapping[NodeId, str]

    def seen(self, node: NodeId, model: str) -> Inventory:
        """Add one observation; the newest counts."""
        return Inventory({**self.models, node: model})


def wanted_model(job: JobSpec) -> str:
    """The words of the model that all roles with GPUs want; empty if they want none, different
    ones, or just one model across the gang."""
    wanted = {
        role.gpu_model or job.placement.gpu_model for role in job.roles if role.resources.gpus
    }
    (model, *others) = wanted or {ANY_GPU_MODEL}
    return "" if others or model in {ANY_GPU_MODEL, SAME_GPU_MODEL} else model


NOTHING_LEARNT = Inventory({})
NO_RULES = GpuModelRules()


def with_gpu_models(
    snapshot: ClusterSnapshot,
    rules: GpuModelRules = NO_RULES,
    learnt: Inventory = NOTHING_LEARNT,
) -> ClusterSnapshot:
    """The snapshot with every model that is known: by the administrators' rules, else by YARN (a
    node attribute), else by what agents saw. Nodes without GPUs have none. Idempotent."""
    if rules.is_empty and not learnt.models:
        return snapshot
    return replace(snapshot, nodes=tuple(_with_model(n, rules, learnt) for n in snapshot.nodes))


def _with_model(node: Node, rules: GpuModelRules, learnt: Inventory) -> Node:
    if not node.total.gpus:
        return node
    model = (
        rules.model_of(node.node_id, node.rack, node.labels)
        or node.gpu_model
        or learnt.models.get(node.node_id, "")
    )
    return node if model == node.gpu_model else replace(node, gpu_model=model)
