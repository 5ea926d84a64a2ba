"""All checks that can refuse a job before anything is submitted to YARN or written to HDFS."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdfs_utils import uri as uris
from yarnam._light_imports import on_first_use
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.client.site import Site, file_system_of
from yarnam.client.submit.block_locality import input_bytes_by_node
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.plans import LocalityLevel, NoFit, PlacementPlan, Target
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import (
    NO_DATA,
    BytesByNode,
    ClusterSnapshot,
    Scheduler,
    in_partitions,
)
from yarnam.core.placement import declared_targets
from yarnam.core.placement.elastic_sizes import elastic_ladder, settled_shape
from yarnam.core.placement.further_targets import larger_targets, pre_run_targets
from yarnam.core.placement.packing.index_memory import IndexMemory
from yarnam.errors import (
    BadSpec,
    NeverFits,
    NoPermission,
    NotThroughGateway,
    Unavailable,
    YarnamError,
)

if TYPE_CHECKING:
    from yarnam.client.submit.input_preflight import InputOutcome

with on_first_use():
    from yarnam.client.environments import container_runtimes
    from yarnam.client.submit import input_preflight

_MAX_QUEUES_SHOWN = 20

REJOIN_S = 60.0
"""A ResourceManager that has started hears of its nodes within this long: a NodeManager asks for it
every 30 s by default (yarn.resourcemanager.connect.retry-interval.ms)."""


@dataclass(frozen=True, slots=True)
class CheckedJob:
    """A job that this cluster could run, with the ladder to declare at submit."""

    job: JobSpec
    snapshot: ClusterSnapshot
    plan: PlacementPlan
    data: BytesByNode = NO_DATA
    """The nodes that store its inputs."""
    larger: tuple[Target, ...] = ()
    """The targets for its enlarged containers (``retry.more_memory``)."""
    pre_run: tuple[Target, ...] = ()
    """The targets for its pre-run; empty if it never has one, or is too small."""
    inputs: tuple[InputOutcome, ...] = ()
    """The files that are excluded from its inputs, and why; ``job`` has them filled in."""

    @property
    def targets(self) -> tuple[Target, ...]:
        return askable(self.snapshot, declared_targets(self.plan))


def askable(snapshot: ClusterSnapshot, targets: tuple[Target, ...]) -> tuple[Target, ...]:
    """Those that name no node, where the names are not known."""
    if snapshot.has_node_names:
        return targets
    return tuple(target for target in targets if target.level is not LocalityLevel.NODE)


def check_job(
    site: Site,
    job: JobSpec,
    *,
    seed: str = "",
    record: Callable[[InputOutcome], list[str]] = input_preflight.nothing_recorded,
) -> CheckedJob:
    """Run all checks side by side; at most 10 s, normally well below one, and as long as it takes
    where an input is to be read (``verify``). ``seed``: see ``plan``; ``record``: see
    ``input_preflight.decide_inputs``.

    Raises the first refusal in a fixed order (the others are named in its hint): BadSpec (no such
    queue, file or input), NoPermission, NeverFits, Unavailable.
    """
    queue = full_queue_name(job.queue)
    checks: list[Callable[[], object]] = [
        lambda: _check_queue(site, queue),
        lambda: _check_shipped(site, job),
        lambda: _check_inputs(site, job),
        lambda: _check_home(site),
        lambda: _check_output(site, job),
    ]
    with ThreadPoolExecutor(len(checks) + 2, thread_name_prefix="check") as pool:
        fit = pool.submit(_check_fit, site, replace(job, queue=queue), seed)
        judged = pool.submit(
            lambda: input_preflight.decide_inputs(site, job, record) if job.inputs else ()
        )
        others = [pool.submit(check) for check in checks]
    refusals = []
    futures: list[Future[Any]] = [*others, judged, fit]
    for error in (future.exception() for future in futures):
        if isinstance(error, YarnamError):
            refusals.append(error)
        elif error is not None:
            raise error
    if refusals:
        raise _with_others(refusals)
    return with_inputs(fit.result(), judged.result())


def with_inputs(checked: CheckedJob, outcomes: tuple[InputOutcome, ...]) -> CheckedJob:
    """The checked job with its inputs as they were listed and judged."""
    settled = {outcome.given.name: outcome.given for outcome in outcomes}
    inputs = tuple(settled.get(given.name, given) for given in checked.job.inputs)
    return replace(checked, job=replace(checked.job, inputs=inputs), inputs=outcomes)


def full_queue_name(queue: str) -> str:
    """``default`` alone counts as "no queue" for the Fair Scheduler's placement rules."""
    return queue if queue == "root" or queue.startswith("root.") else f"root.{queue}"


def _with_others(refusals: list[YarnamError]) -> YarnamError:
    first = refusals[0]
    messages = dict.fromkeys(error.message for error in refusals)
    others = [f"Also: {message}" for message in messages if message != first.message]
    if others:
        first.hint = "\n".join(part for part in (first.hint, *others) if part)
    return first


def _check_queue(site: Site, queue: str) -> None:
    names = sorted(view.name for view in site.rm.queues())
    if queue not in names:
        close = difflib.get_close_matches(queue, names, n=1)
        unshown = len(names) - _MAX_QUEUES_SHOWN
        shown = ", ".join(names[:_MAX_QUEUES_SHOWN])
        if unshown > 0:
            shown += f" and {unshown} more"
        is_parent = any(name.startswith(f"{queue}.") for name in names)
        raise BadSpec(
            f"{queue} is not a leaf queue"
            if is_parent
            else f"queue {queue} does not exist on this cluster",
            hint=(f"Did you mean {close[0]}? " if close else "") + f"Queues: {shown}",
        )
    if site.rm.queue_access(queue, site.user) is False:
        raise NoPermission(
            f"{site.user} is not allowed to submit to queue {queue}",
            hint="Ask for SUBMIT access, or use another queue.",
        )


def _check_fit(site: Site, job: JobSpec, seed: str) -> CheckedJob:
    snapshot = _snapshot_with_nodes(site, job)
    if not any(node.is_usable for node in snapshot.nodes):
        raise Unavailable(
            f"none of the cluster's {len(snapshot.nodes)} nodes is running",
            hint="A ResourceManager that has just started hears of its nodes within a minute. "
            "Otherwise see its page of nodes, or ask the administrators.",
        )
    if job.environment.image is not None:
        container_runtimes.check_runtime(site, job.environment.image, snapshot)
    try:
        return checked_on(snapshot, job, input_bytes_by_node(site, job, snapshot), seed)
    except NeverFits as refusal:
        with suppress(YarnamError):  # the refusal stands without it
            age_s = time.time() - site.rm.started_at_s()
            if 0.0 <= age_s < REJOIN_S:
                late = f"The ResourceManager started {age_s:.0f} s ago: nodes may be missing."
                refusal.hint = f"{late} If so, submit again in a minute.\n{refusal.hint}"
        raise


def _snapshot_with_nodes(site: Site, job: JobSpec) -> ClusterSnapshot:
    """A ResourceManager that has just taken over knows no node yet: they come within seconds."""
    give_up_at = time.monotonic() + site.timing.nodes_s
    while True:
        snapshot = site.snapshot(job.queue, job.node_labels)
        if snapshot.nodes or time.monotonic() > give_up_at:
            return snapshot
        time.sleep(site.timing.poll_s)


def checked_on(
    snapshot: ClusterSnapshot, job: JobSpec, data: BytesByNode = NO_DATA, seed: str = "",
    memory: IndexMemory | None = None,
) -> CheckedJob:  # fmt: skip
    """The job with its ladder on this cluster; ``memory`` as for ``plan``. Raises NeverFits,
    BadSpec (a label that no node has)."""
    snapshot = _labelled(snapshot, job)
    if job.placement.include_nodes and not snapshot.has_node_names:
        raise _needs_names("placement.include_nodes names nodes")
    job = settled_shape(snapshot, job)
    plan = elastic_ladder(snapshot, job, data=data, seed=seed, memory=memory)
    if isinstance(plan, NoFit):
        raise NeverFits(f"{plan.message} ({plan.reason.value})", hint=plan.hint)
    _check_names(snapshot, job, declared_targets(plan))
    larger = askable(snapshot, larger_targets(snapshot, job, data=data, seed=seed))
    pre_run = pre_run_targets(snapshot, job) if job.may_have_pre_run else ()
    return CheckedJob(job, snapshot, plan, data, larger, askable(snapshot, pre_run))


def _check_names(snapshot: ClusterSnapshot, job: JobSpec, targets: tuple[Target, ...]) -> None:
    """Raises NotThroughGateway: only targets of named nodes would do, and no name is known."""
    wanted = {target.role for target in targets}
    if wanted - {target.role for target in askable(snapshot, targets)}:
        raise _needs_names(f"{job.name} can only be asked for by the names of nodes")


def _needs_names(what: str) -> NotThroughGateway:
    return NotThroughGateway(
        f"{what}, and the gateway hides them",
        hint="Submit it inside the cluster, for example on an edge node, or leave more open in "
        "the section placement: yarnam docs gateway",
    )


def _labelled(snapshot: ClusterSnapshot, job: JobSpec) -> ClusterSnapshot:
    """The nodes that the job's labels name. Raises BadSpec."""
    for role in job.roles:
        key = "placement" if role.node_label is None else f"roles.{role.name}"
        if label := job.node_label(role.name):
            _check_label(snapshot, label, f"{key}.node_label")
    return in_partitions(snapshot, job.node_labels)


def _check_label(snapshot: ClusterSnapshot, node_label: str, key: str) -> None:
    if snapshot.scheduler is not Scheduler.CAPACITY:
        raise BadSpec(
            f"{key} is '{node_label}', but this cluster has no node labels: only the Capacity "
            "Scheduler does",
            hint="To choose nodes: placement.include_nodes, placement.gpu_model.",
        )
    labels = sorted({node.label for node in snapshot.nodes if node.label})
    if node_label not in labels:
        raise BadSpec(
            f"no node has the label '{node_label}' ({key})",
            hint=f"Labels: {', '.join(labels)}" if labels else "No node has a label.",
        )
    if snapshot.queue_in(node_label).maximum == Resources():
        raise BadSpec(
            f"queue {snapshot.queue.name} has no part of the nodes with the label "
            f"'{node_label}' ({key})",
            hint="Use another queue, or ask the administrators: accessible-node-labels and "
            f"accessible-node-labels.{node_label}.maximum-capacity of the queue.",
        )


def _check_shipped(site: Site, job: JobSpec) -> None:
    sources = [(f"file '{file.name}'", file.source) for file in job.files]
    if job.environment.archive:
        sources.append(("environment archive", job.environment.archive))
    missing = []
    for what, source in sources:
        if "://" not in source:
            if not Path(source).exists():
                missing.append(f"{what}: {source} does not exist on this machine")
        elif not _exists(site, source):
            missing.append(f"{what}: {source} does not exist")
    if missing:
        raise BadSpec("\n".join(missing), hint="Check the paths in files, code and environment.")


def _check_inputs(site: Site, job: JobSpec) -> None:
    missing = [
        item
        for item in job.inputs
        if not (job.depends_on and item.is_read_by_name) and not _exists(site, item.uri)
    ]
    if missing:
        raise BadSpec(
            "\n".join(f"input '{item.name}': {item.uri} does not exist" for item in missing),
            hint="Check data.inputs.",
        )


def _check_output(site: Site, job: JobSpec) -> None:
    """Check that the output can be made when the gang has succeeded, as far as can be known now."""
    if not job.output:
        return
    files, path = file_system_of(site, job.output)
    with hdfs_errors(f"checking {job.output}"):
        is_there = files.exists(path)
        is_empty = is_there and files.stat(path).is_dir and not files.list(path)
    if is_there and not is_empty and not job.storing.replace:
        raise BadSpec(
            f"output: {job.output} already exists",
            hint="Set another directory in data.outputs, delete this one, or have it replaced:"
            f" outputs: {{path: {job.output}, replace: true}}",
        )
    above = uris.parent(path)
    with hdfs_errors(f"checking {above}"):
        while not files.exists(above):
            above = uris.parent(above)
        status, root = files.stat(above), files.stat("/")
    if not status.is_dir:
        raise BadSpec(f"output: cannot create {job.output}: {above} is a file")
    may_write = site.user in {status.owner, root.owner} or status.permission & 0o022
    if not may_write:
        raise NoPermission(
            f"output: {site.user} has no write access to {above}, owned by {status.owner}",
            hint="The output and the tasks' directories are created there. Choose another.",
        )


def _exists(site: Site, uri: str) -> bool:
    files, path = file_system_of(site, uri)
    with hdfs_errors(f"checking {uri}"):
        return files.exists(path)


def _check_home(site: Site) -> None:
    """Staging needs the user's home directory; making it may need an administrator."""
    home = site.paths.home
    with hdfs_errors(f"checking {home}"):
        if site.files.exists(home):
            return
    with hdfs_errors("checking HDFS"):
        parent = home.rpartition("/")[0]
        if not site.files.exists(parent):
            return  # mkdirs reports it; a user's own empty HDFS has no /user yet
        status = site.files.stat(parent)
    if status.owner != site.user and not status.permission & 0o002:
        raise NoPermission(
            f"{home} does not exist, and {site.user} is not allowed to create it",
            hint="Ask an HDFS administrator for a home directory.",
        )
