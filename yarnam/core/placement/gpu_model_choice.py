"""Which GPU model each role of a job gets: the choices, each for the whole gang.

A training step is as slow as its slowest GPU, so by default (``same``) a gang runs on one model.
Where the cluster has only one known model, or none, there is nothing to choose. A node whose model
is not known is used only where the known ones cannot hold the gang, and then on trust: its agent
reports what it finds, and the AM releases the grant if it is another model.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from yarnam.core.model.gpu_names import close_models, has_words, words_of
from yarnam.core.model.job_spec import ANY_GPU_MODEL, SAME_GPU_MODEL, JobSpec
from yarnam.core.model.plans import NoFit, Reason
from yarnam.core.model.snapshot import Node

GpuModelChoice = dict[str, str]
"""Role to model; a role that is not in it may have any."""

MOST_CHOICES = 6
"""Each is planned for, and may cost Skein services."""
MOST_MODELS_SHOWN = 6


def gpu_model_choices(job: JobSpec, nodes: Sequence[Node]) -> list[GpuModelChoice] | NoFit:
    """All ways to give each role a model, the model with the most GPUs first; NoFit (never) when
    no node has a model that the job requires."""
    roles = [
        (role.name, role.gpu_model or job.placement.gpu_model)
        for role in job.roles
        if role.resources.gpus and (role.gpu_model or job.placement.gpu_model) != ANY_GPU_MODEL
    ]
    if not roles:
        return [{}]
    if (
        all(wanted == SAME_GPU_MODEL for _, wanted in roles)
        and len({n.gpu_model for n in nodes}) < 2
    ):
        return [{}]
    known = gpus_by_model(nodes)
    models = [model for model in known if model]
    if len(models) < 2 and all(wanted == SAME_GPU_MODEL for _, wanted in roles):
        return [{}]
    options: dict[str, list[str]] = {}
    for _, wanted in roles:
        found = models if wanted == SAME_GPU_MODEL else [m for m in models if has_words(m, wanted)]
        if not found and "" in known:
            found = [wanted]
        if not found:
            return _no_such_model(wanted, known)
        options[wanted] = found
    combined = itertools.product(*options.values())
    return [
        {name: dict(zip(options, models_, strict=True))[wanted] for name, wanted in roles}
        for models_ in itertools.islice(combined, MOST_CHOICES)
    ]


def gpus_by_model(nodes: Iterable[Node]) -> dict[str, int]:
    """GPUs of usable nodes by model, the most first; empty name: not known. Names that have the
    same words count as one model, under the first of them."""
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


def describe_gpu_models(known: dict[str, int]) -> str:
    """List the models as in ``A100 (64 GPUs), V100 (32 GPUs), unknown model (8 GPUs)``."""
    shown = [f"{model or 'unknown model'} ({gpus} GPUs)" for model, gpus in known.items()]
    more = f" and {len(shown) - MOST_MODELS_SHOWN} more" if len(shown) > MOST_MODELS_SHOWN else ""
    return ", ".join(shown[:MOST_MODELS_SHOWN]) + more


def _no_such_model(wanted: str, known: dict[str, int]) -> NoFit:
    close = close_models(wanted, known)
    found = describe_gpu_models(known) or "no GPUs at all"
    return NoFit(
        Reason.NO_SUCH_GPU_MODEL,
        is_never=True,
        message=f"no node that the job may use has GPUs of model {wanted!r}; "
        f"the cluster has {found}",
        hint=(f"Did you mean {' or '.join(close)}? " if close else "")
        + "placement.gpu_model: any accepts every model.",
    )
