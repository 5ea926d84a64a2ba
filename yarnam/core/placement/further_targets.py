"""Targets beside those of the gang: for larger containers after a gang ran out of memory
(``retry.more_memory``), and for the job's pre-run.

Skein fixes the size of a service at submit, so each memory level has targets of its own, which are
declared with the job's first ones. All roles are enlarged together: a gang has one memory level.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.plans import NoFit, Reason, Target
from yarnam.core.model.snapshot import NO_DATA, BytesByNode, ClusterSnapshot
from yarnam.core.placement.elastic_sizes import MOST_EXTRA_TARGETS, elastic_ladder
from yarnam.core.placement.planner import declared_targets

MOST_PRE_RUN_TARGETS = 4
"""Services declared for a pre-run: each costs 0.1 to 0.3 s of submit time (skein-on-yarn.md, 11a).
"""


def larger_targets(
    snapshot: ClusterSnapshot, job: JobSpec, *, data: BytesByNode = NO_DATA, seed: str = ""
) -> tuple[Target, ...]:
    """The targets to declare for all memory levels above 0 that this cluster could ever hold, the
    tightest of each level and its loosest one. ``job`` has its shape settled; ``data`` and
    ``seed`` are as for ``plan``."""
    found: list[Target] = []
    for level in range(1, job.memory_levels + 1):
        ladder = elastic_ladder(snapshot, job.at_memory_level(level), data=data, seed=seed)
        if isinstance(ladder, NoFit):
            break
        targets = declared_targets(ladder)
        if len(targets) > MOST_EXTRA_TARGETS:
            roles = len(job.roles)
            targets = (*targets[: MOST_EXTRA_TARGETS - roles], *targets[-roles:])
        found += [
            replace(target, service=f"{target.service}-x{level}", memory_level=level)
            for target in targets
        ]
    return tuple(found)


def pre_run_targets(snapshot: ClusterSnapshot, job: JobSpec) -> tuple[Target, ...]:
    """The targets to declare for the pre-run of a job whose shape is settled: the loosest rungs of
    its ladder. Where a gang fits, one process of it does."""
    ladder = elastic_ladder(snapshot, job.as_pre_run())
    return () if isinstance(ladder, NoFit) else declared_targets(ladder)[-MOST_PRE_RUN_TARGETS:]


def targets_at(
    snapshot: ClusterSnapshot, job: JobSpec, targets: tuple[Target, ...], level: int
) -> tuple[Target, ...] | NoFit:
    """The declared targets of one memory level, of which ``job`` is; or why there are none. Of a
    pre-run (``JobSpec.as_pre_run``) those that are its own."""
    roles = {role.name for role in job.roles}
    found = tuple(t for t in targets if t.memory_level == level and t.role in roles)
    if found or not level:
        return found
    ladder = elastic_ladder(snapshot, job)
    if isinstance(ladder, NoFit):
        return replace(ladder, is_never=True)
    sizes = ", ".join(f"{role.resources.memory_mib} MiB for {role.name}" for role in job.roles)
    return NoFit(
        Reason.TASK_EXCEEDS_LARGEST_NODE,
        is_never=True,
        message=f"no node could hold containers of {sizes} when the job was submitted",
        hint="Submit it again: the cluster has larger nodes by now.",
    )
