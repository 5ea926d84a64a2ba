"""Which model of GPU each role of a job gets: one choice after another, each across the gang.

A step of training goes at the pace of its slowest GPU, so by default (``same``) a gang stands on
one model. A cluster where only one model is known, or none, asks for nothing. A node whose model
is not known is used only where the known ones cannot hold the gang, and then on trust: its agent
tells what it finds, and the grant is given back if it is another.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from yarnam.model.gpus import close_models, has_words, words_of
from yarnam.model.job import ANY_GPU_MODEL, SAME_GPU_MODEL, JobSpec
from yarnam.model.placement import NoFit, Reason
from yarnam.model.snapshot import Node

Choice = dict[str, str]
"""Role to model; a role that is not there may have any."""

MOST_CHOICES = 6
"""Each is planned for, and may cost services."""
MOST_MODELS_SHOWN = 6


def choices_of(job: JobSpec, nodes: Sequence[Node]) -> list[Choice] | NoFit:
    """All ways to give each role a model, the model with the most GPUs first; NoFit (never) when
    nobody has one that was asked for."""
    roles = [
        (role.name, role.gpu_model or job.placement.gpu_model)
        for role in job.roles
        if role.resources.gpus and (role.gpu_model or job.placement.gpu_model) != ANY_GPU_MODEL
    ]
    if not roles:
        return [{}]
    if all(wish == SAME_GPU_MODEL for _, wish in roles) and len({n.gpu_model for n in nodes}) < 2:
        return [{}]
    known = gpus_by_model(nodes)
    models = [model for model in known if model]
    if len(models) < 2 and all(wish == SAME_GPU_MODEL for _, wish in roles):
        return [{}]
    options: dict[str, list[str]] = {}
    for _, wish in roles:
        found = models if wish == SAME_GPU_MODEL else [m for m in models if has_words(m, wish)]
        if not found and "" in known:
            found = [wish]
        if not found:
            return _no_such_model(wish, known)
        options[wish] = found
    combined = itertools.product(*options.values())
    return [
        {name: dict(zip(options, models_, strict=True))[wish] for name, wish in roles}
        for models_ in itertools.islice(combined, MOST_CHOICES)
    ]


def gpus_by_model(nodes: Iterable[Node]) -> dict[str, int]:
    """GPUs of usable nodes by model, the most first; empty name: not known. Names with the same
    words count as one, under the first of them."""
    by_name: dict[str, int] = {}
    for node in nodes:
        gpus = node.total.gpus
        if gpus and node.is_usable:
            by_name[node.gpu_model] = by_name.get(node.gpu_model, 0) + gpus
    if len(by_name) < 2:
        return by_name
    merged: dict[frozenset[str], tuple[str, int]] = {}
    for name in sorted(by_name):
        first, gpus = merged.get(words_of(name), (name, 0))
        merged[words_of(name)] = (first, gpus + by_name[name])
    return dict(sorted(merged.values(), key=lambda item: (-item[1], item[0])))


def models_in_words(known: dict[str, int]) -> str:
    """Who has what, as in ``A100 (64 GPUs), V100 (32 GPUs), not known (8 GPUs)``."""
    shown = [f"{model or 'not known'} ({gpus} GPUs)" for model, gpus in known.items()]
    more = f" and {len(shown) - MOST_MODELS_SHOWN} more" if len(shown) > MOST_MODELS_SHOWN else ""
    return ", ".join(shown[:MOST_MODELS_SHOWN]) + more


def _no_such_model(wish: str, known: dict[str, int]) -> NoFit:
    close = close_models(wish, known)
    there = models_in_words(known) or "no GPUs at all"
    return NoFit(
        Reason.NO_SUCH_GPU_MODEL,
        is_never=True,
        message=f"no node that the job may use has GPUs of model {wish!r}; there are {there}",
        hint=(f"Did you mean {' or '.join(close)}? " if close else "")
        + "placement.gpu_model: any takes them as they come.",
    )
