"""What OpenPAI's retry policy, exit codes and SKU types become in a spec."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from yarnam.spec.importers.conversion import Source

ALWAYS, ON_FAILURE = -2, -1
"""``maxRetryCount`` of FrameworkController: again after success too; after any failure."""

EXIT_RULES: list[dict[str, Any]] = [
    {
        "id": "openpai-permanent-crash",
        "class": "core-dump",
        "signals": [4, 7, 8],
        "action": "never",
        "explanation": "A crash that OpenPAI does not retry (exit code 132, 135 or 136).",
    },
    {
        "id": "openpai-permanent-pipe",
        "class": "killed",
        "signals": [13],
        "action": "never",
        "explanation": "A broken pipe, which OpenPAI does not retry (exit code 141).",
    },
    {
        "id": "openpai-transient",
        "class": "killed",
        "signals": [26],
        "action": "retry-free",
        "explanation": "An end that OpenPAI takes for transient (exit code 154).",
    },
]
"""OpenPAI's table of exit codes, where it and yarnam's own rules differ. 193 and 194 mean the same
in both. 130, 137 and 143 are transient there: here the rules tell YARN's ends from a process that
had too little memory. 134 and 139 are of unknown cause in both."""

PRIORITIES = {"prod": 5, "test": 0, "oppo": -5}
"""HiveD's classes as an order among waiting jobs."""

_MODEL = re.compile(
    r"(?<![A-Z0-9])((?:RTX|GTX|GB|MI|[A-Z])\d{1,4}[A-Z]?)(?![A-Z0-9])", re.IGNORECASE
)
"""The word of a cell type that is a GPU's model: V100 of ``DGX2-V100-NODE``, MI100."""

_HIVED = "extras.hivedScheduler."
_ROLE = r"extras\.hivedScheduler\.taskRoles\.[^.]+\."

_DROPPED = {
    _ROLE + "skuNum": "`gpus` of the role says it",
    _ROLE + "(pinnedCellId|pinnedCell)": "YARN has no pinned cells; a queue has a guaranteed share",
    _ROLE + "(affinityGroupName|affinityGroup)": "all roles of a job are one gang, placed together",
    _ROLE + "gangReleaseEnable": "a gang gives its containers back together",
    _ROLE + "lazyPreemptionEnable": "the Fair Scheduler preempts as the site has set it up",
    _ROLE + "(ignoreK8sSuggestedNodes|multiChainRelaxEnable)": "of Kubernetes' scheduler",
    re.escape(_HIVED) + "taskRoles": "it says nothing",
}


def retry_of(source: Source) -> dict[str, Any]:
    """The section ``retry``, of ``jobRetryCount`` or of FrameworkController's ``retryPolicy``.
    With the fancy policy, which is that of each job with a ``jobRetryCount``, the exit code decides
    first: transient failures are retried for free, permanent ones never."""
    key = "retryPolicy.maxRetryCount" if _has_policy(source) else "jobRetryCount"
    times = source.whole(key, 0)
    is_fancy = source.take("retryPolicy.fancyRetryPolicy", key == "jobRetryCount")
    if times in (ALWAYS, ON_FAILURE) or times < 0:
        source.note(key, "a job is not retried without a limit; set `retry`")
    retry: dict[str, Any] = {}
    if times > 0:
        retry = {"max_restarts": times, "on_user_failure": times}
    if str(is_fancy).lower() == "true":
        retry["rules"] = [dict(rule) for rule in EXIT_RULES]
    return retry


def _has_policy(source: Source) -> bool:
    return any(key.startswith("retryPolicy.") for key in source.values)


def hived_of(source: Source, roles: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The sections ``gang`` and ``placement``, of ``extras.hivedScheduler``."""
    gang: dict[str, Any] = {}
    priority = source.values.get(f"{_HIVED}jobPriorityClass")
    if priority in PRIORITIES:
        source.take(f"{_HIVED}jobPriorityClass")
        gang = {"priority": PRIORITIES[priority]} if PRIORITIES[priority] else {}
        if priority == "oppo":
            why = "it waits behind others, but is preempted only as its queue is"
            source.note(f"{_HIVED}jobPriorityClass", why)
    source.drop(f"{_HIVED}jobPriorityClass", "of no known class: see `gang.priority`")
    placement = _placement(source, roles)
    for pattern, why in _DROPPED.items():
        source.drop_all(pattern, why)
    return gang, placement


def _placement(source: Source, roles: Collection[str]) -> dict[str, Any]:
    """The GPU model of the roles' SKU types: a job has one for all tasks."""
    keys = [f"{_HIVED}taskRoles.{name}.skuType" for name in roles]
    found: dict[str, str] = {}
    for key in keys:
        if key not in source.values:
            continue
        sku = str(source.values[key])
        model = _MODEL.search(sku.replace("_", "-"))
        if model is None:
            source.drop(key, f"{sku} names no GPU model: see `placement.gpu_model`")
            continue
        source.take(key)
        found[key] = model[1].upper()
    models = sorted(set(found.values()))
    if len(models) > 1:
        for key in found:
            source.note(key, "the tasks of a job have one model, or any: see `placement.gpu_model`")
        return {"gpu_model": "any"}
    return {"gpu_model": models[0]} if models else {}
