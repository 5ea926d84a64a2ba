"""The parts of pages that are the product's own words: why a job waits, why it failed, what has
run, and the versions of what is written."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.unit.queues.test_waiting import CASES
from yarnam.core.model.outcomes import FailureClass, FailureRule, RetryAction
from yarnam.core.model.plans import Reason
from yarnam.core.queues.waiting import why_waiting
from yarnam.spec.failure_rules import class_defaults, shipped_rules

BEGIN, END = "<!-- words of the product: python -m tests.pictures.draw -->\n", "<!-- end -->"
"""The part of a page between these is written anew; the rest is prose."""

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS / "examples"

TITLES = {
    "max-jobs": "The queue runs no more jobs",
    "am-share": "No room for its ApplicationMaster in the queue",
    "no-node-for-am": "No node for its ApplicationMaster",
    "next-heartbeat": "YARN is about to start it",
    "max-resources": "The queue has reached its maximum",
    "max-container": "A task is larger than a container may be",
    "no-such-node": "No node is large enough for a task",
    "not-enough-gpus": "Too few free GPUs",
    "fragmented": "GPUs are free, but in pieces",
    "wait-queue": "Others are ahead of it",
    "reserved": "Nodes are reserved for a gang that has waited longer",
    "policy": "The queue's policy has others go first",
    "suspended": "It is suspended",
    "back-off": "Its last attempt was not complete in time",
    "asked": "It has asked, and YARN has not granted yet",
    "own-nodes": "Its spec leaves out the nodes that have room",
    "fits": "It fits, and asks at its next poll",
    "no-queue": "Its queue does not exist",
    "unknown": "Nothing is known of its gang yet",
    "queue-stopped": "Its queue is stopped",
    "cordoned-nodes": "Nodes are cordoned",
    "earlier-jobs": "It waits for other jobs",
    "running": "It does not wait",
}
"""By the cause that `yarnam queues why --json` names."""

REFUSED = {
    Reason.TASK_EXCEEDS_LARGEST_NODE: "Make a task smaller: fewer `gpus`, more `tasks`.",
    Reason.TASK_EXCEEDS_MAX_CONTAINER: "Make a task smaller, or ask the administrator for a larger "
    "`yarn.scheduler.maximum-allocation-*`.",
    Reason.GANG_EXCEEDS_CLUSTER: "Ask for fewer tasks; `yarnam nodes` shows what there is.",
    Reason.GANG_EXCEEDS_QUEUE: "Ask for fewer GPUs, or choose another queue: "
    "`yarnam plan --compare-queues`.",
    Reason.GANG_EXCEEDS_RACK: "Relax `placement.locality.rack` to `preferred`.",
    Reason.GANG_EXCEEDS_NODE_LIMIT: "Raise `placement.max_nodes`, or use larger tasks.",
    Reason.EVERY_NODE_EXCLUDED: "Allow more nodes in `placement`.",
    Reason.NO_NODES: "The cluster has no running node: tell its administrator.",
    Reason.NO_SUCH_GPU_MODEL: "Choose a model that `yarnam nodes` lists.",
    Reason.GANG_EXCEEDS_GPU_MODEL: "Ask for fewer GPUs of this model, or leave `gpu_model` out.",
    Reason.TOO_FEW_FREE_GPUS: "Wait, or ask for fewer GPUs.",
    Reason.TOO_FEW_FREE_RESOURCES: "Wait, or ask for less memory or fewer cores per task.",
    Reason.FRAGMENTED: "Wait, or use smaller tasks.",
    Reason.QUEUE_FULL: "Wait for jobs of the queue to end, or choose another queue.",
    Reason.NO_RACK_FITS: "Wait, or relax `placement.locality.rack` to `preferred`.",
    Reason.NO_GPU_MODEL_FITS: "Wait, or leave `gpu_model` out.",
    Reason.WAITING_FOR_ADMISSION: "Wait for the jobs ahead, or declare a `duration`.",
    Reason.RM_UNREACHABLE: "It does not answer: wait, or tell its administrator.",
    Reason.CORDONED_NODES: "Wait; `yarnam nodes` shows who has cordoned them, and why.",
    Reason.QUEUE_STOPPED: "Wait; `yarnam queues show` shows who has stopped it, and why.",
}

FAMILIES = {
    "Out of memory": ("cpu-out-of-memory", "gpu-out-of-memory", "limit-exceeded"),
    "Your program": (
        "traceback", "semantic-error", "syntax-error", "import-error", "command-not-found",
        "library-not-loaded", "core-dump", "invalid-memory-access", "diverged",
        "declared-permanent", "declared-transient", "unknown",
    ),
    "GPUs and CUDA": (
        "cuda-failure", "cuda-init-failed", "cuda-version-mismatch", "gpu-ecc-error",
    ),
    "Network and peers: NCCL, Gloo, MPI, InfiniBand": (
        "communication-error", "peer-lost", "port-in-use", "hang",
    ),
    "Data, checkpoints and disks": (
        "incorrect-inputs", "permission-error", "checkpoint-error", "checkpoint-taken",
        "output-error", "disk-full",
    ),
    "The cluster": ("preempted", "node-lost", "killed"),
}  # fmt: skip

RETRIED = {
    RetryAction.NEVER: "no: the same would happen again",
    RetryAction.ALLOWED: "as often as `retry.on_user_failure` allows",
    RetryAction.RETRY: "yes, for one of `retry.max_restarts`",
    RetryAction.ELSEWHERE: "yes, on another node",
    RetryAction.FREE: "yes, and it does not count while it does not continue for too long",
    RetryAction.MORE_MEMORY: "in larger containers, where `retry.more_memory` allows",
    RetryAction.WITHOUT_INPUT: "without the corrupt input, where the job leaves such files out",
}


def pages() -> dict[str, str]:
    """The whole pages, by their paths below ``docs``."""
    parts = {
        "troubleshoot/waiting.md": _waiting(),
        "troubleshoot/failing.md": _failing(),
        "reference/support.md": _support(),
        "reference/upgrade.md": _versions(),
    }
    return {
        name: _with_part((DOCS / name).read_text(encoding="utf-8"), "".join(part))
        for name, part in parts.items()
    }


def _with_part(page: str, part: str) -> str:
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}{part}{END}{rest.partition(END)[2]}"


def _waiting() -> Iterator[str]:
    for cause, title in TITLES.items():
        job, now, _, _ = CASES[cause]
        found = why_waiting(job, now)
        yield f"\n## {title}\n\n"
        yield f"> {found.reason}\n\n"
        if found.change:
            yield f"What would start it: {found.change}.\n"
    yield "\n## Refused at submit, or waiting for room\n\n"
    yield "`yarnam submit` refuses a gang that can never fit, with exit code 91. "
    yield "One that does not fit now waits.\n\n"
    yield "| reason | what to do |\n|---|---|\n"
    for reason in Reason:
        yield f"| `{reason.value}` | {REFUSED[reason]} |\n"


def _failing() -> Iterator[str]:
    for family, names in FAMILIES.items():
        yield f"\n## {family}\n"
        for name in names:
            yield from _failure(FailureClass(name))


def _failure(failure: FailureClass) -> Iterator[str]:
    yield f"\n### {failure.value}\n\n"
    common = class_defaults().get(failure)
    if common is None:
        yield "No rule knows the failure. Read the end of the log of the process that failed "
        yield "first: `yarnam explain` names it. A "
        yield "[rule of your own](../reference/failure-rules.md) "
        yield "can name the failure next time.\n"
        return
    yield f"{common.explanation} **What to do:** {common.hint}\n\n"
    yield f"Retried: {RETRIED[RetryAction(common.action)]}.\n"
    lines = _lines([rule for rule in shipped_rules() if rule.failure is failure])
    if lines:
        yield "\n```text\n" + "".join(f"{line}\n" for line in lines) + "```\n"


MOST_LINES = 8


def _lines(rules: list[FailureRule]) -> list[str]:
    """Lines of logs by which it is known, as their rules have them."""
    patterns = [rule.patterns[0] for rule in rules if rule.patterns]
    shown = [pattern.removeprefix("^").replace("*", " … ") for pattern in patterns]
    return [line.strip() for line in shown if "`" not in line][:MOST_LINES]


# ---- what has run, and the versions of what is written -------------------------------------------


PACKAGES = {
    "accelerate": ("torch", "accelerate"), "deepspeed": ("torch", "deepspeed"),
    "hf-trainer": ("torch", "transformers", "accelerate"),
    "lightning": ("torch", "pytorch-lightning"),
    "horovod": ("torch", "horovod"), "horovod-elastic": ("torch", "horovod"),
}  # fmt: skip
"""What an example is about, where several share an environment; otherwise torch, if it is there."""
TOOLS = ("scikit-learn", "numpy", "setuptools")


def _support() -> Iterator[str]:
    found = json.loads((DOCS / "reference" / "support.json").read_text())
    for path in sorted(EXAMPLES.glob("*/spec.yaml")):
        name = path.parent.name
        if name in ("digits", "notebook"):  # not of the gallery's run
            continue
        framework = yaml.safe_load(path.read_text()).get("framework", "command")
        run = found.get(name)
        if run is None:
            yield f"| `{name}` | `{framework}` | | not yet |\n"
            continue
        installed = run["versions"]
        about = [key for key in PACKAGES.get(name, ("torch",)) if key in installed] or installed
        packages = ", ".join(f"{key} {installed[key]}" for key in about if key not in TOOLS)
        yield f"| `{name}` | `{framework}` | {packages} | {run['on']} |\n"


VERSIONS = {
    "messages between client, ApplicationMaster and agents": ("yarnam.wire.protocol", "PROTOCOL"),
    "records of jobs on HDFS": ("yarnam.wire.protocol", "RECORD_VERSION"),
    "records of the history": ("yarnam.core.accounting.history_record", "HISTORY_VERSION"),
    "journals": ("hdfs_utils.journal.format", "VERSION"),
    "outputs": ("hdfs_utils.outputs.committer", "VERSION"),
    "entries of blacklists": ("hdfs_utils.blacklist.entries", "FORMAT_VERSION"),
    "rules of the wait queue": ("yarnam.core.model.tickets", "ADMISSION_RULES"),
    "rules of policies": ("yarnam.core.model.tickets", "POLICY_RULES"),
    "specs": ("yarnam.spec.sections.document", "VERSION"),
}


def _versions() -> Iterator[str]:
    for what, (module, name) in VERSIONS.items():
        version = getattr(importlib.import_module(module), name)
        yield f"| {what} | {version} | `{module}` |\n"
