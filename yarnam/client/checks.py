"""Everything that can refuse a job before anything is asked of YARN or written to HDFS."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hdfs_utils import FileSystem
from hdfs_utils import uri as uris
from yarnam.client.hdfs_errors import hdfs_errors
from yarnam.client.near_data import input_bytes
from yarnam.client.site import Site
from yarnam.errors import BadSpec, NeverFits, NoPermission, YarnamError
from yarnam.model.job import JobSpec
from yarnam.model.locality import NO_DATA, BytesByNode
from yarnam.model.placement import NoFit, PlacementPlan, Target
from yarnam.model.snapshot import ClusterSnapshot
from yarnam.placement import declared_targets
from yarnam.placement.elastic import elastic_ladder, settled_shape

if TYPE_CHECKING:
    from yarnam.client.input_checks import InputOutcome

_MAX_QUEUES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class CheckedJob:
    """A job that this cluster could run, with the ladder to declare at submit."""

    job: JobSpec
    snapshot: ClusterSnapshot
    plan: PlacementPlan
    data: BytesByNode = NO_DATA
    """Where its inputs lie."""
    inputs: tuple[InputOutcome, ...] = ()
    """What is left out of its inputs, and why; ``job`` has it filled in."""

    @property
    def targets(self) -> tuple[Target, ...]:
        return declared_targets(self.plan)


def check_job(site: Site, job: JobSpec, *, seed: str = "") -> CheckedJob:
    """Run all checks side by side; at most 10 s, normally well below one, and as long as it takes
    where an input is to be read (``verify``). ``seed``: see ``plan``.

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
        judged = pool.submit(_judge_inputs, site, job)
        others = [pool.submit(check) for check in checks]
    failed = [*(future.exception() for future in others), judged.exception()]
    errors = [error for error in failed if error is not None]
    if (unfit := fit.exception()) is not None:
        errors.append(unfit)
    refusals = []
    for error in errors:
        if not isinstance(error, YarnamError):
            raise error
        refusals.append(error)
    if refusals:
        raise _with_others(refusals)
    return with_inputs(fit.result(), judged.result())


def _judge_inputs(site: Site, job: JobSpec) -> tuple[InputOutcome, ...]:
    if not job.inputs:
        return ()
    # The checks of formats take a tenth of a second to load.
    from yarnam.client.input_checks import judge_inputs

    return judge_inputs(site, job)


def with_inputs(checked: CheckedJob, outcomes: tuple[InputOutcome, ...]) -> CheckedJob:
    """The checked job with what is left out of its inputs."""
    settled = {outcome.given.name: outcome.given for outcome in outcomes}
    inputs = tuple(settled.get(given.name, given) for given in checked.job.inputs)
    return replace(checked, job=replace(checked.job, inputs=inputs), inputs=outcomes)


def full_queue_name(queue: str) -> str:
    """``default`` alone counts as "no queue" for the Fair Scheduler's placement rules."""
    return queue if queue == "root" or queue.startswith("root.") else f"root.{queue}"


def _with_others(refusals: list[YarnamError]) -> YarnamError:
    first = refusals[0]
    messages = dict.fromkeys(error.message for error in refusals)
    others = [f"also: {message}" for message in messages if message != first.message]
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
            f"{queue} is not a queue that takes jobs; it has queues below it"
            if is_parent
            else f"there is no queue {queue} on this cluster",
            hint=(f"Did you mean {close[0]}? " if close else "") + f"There are: {shown}",
        )
    if site.rm.queue_access(queue, site.user) is False:
        raise NoPermission(
            f"{site.user} may not submit to queue {queue}",
            hint="Ask for SUBMIT access to it, or name another queue.",
        )


def _check_fit(site: Site, job: JobSpec, seed: str) -> CheckedJob:
    snapshot = site.snapshot(job.queue)
    return checked_on(snapshot, job, input_bytes(site, job, snapshot), seed)


def checked_on(
    snapshot: ClusterSnapshot, job: JobSpec, data: BytesByNode = NO_DATA, seed: str = ""
) -> CheckedJob:
    """The job with its ladder on this cluster. Raises NeverFits."""
    job = settled_shape(snapshot, job)
    plan = elastic_ladder(snapshot, job, data=data, seed=seed)
    if isinstance(plan, NoFit):
        raise NeverFits(f"{plan.message} ({plan.reason.value})", hint=plan.hint)
    return CheckedJob(job, snapshot, plan, data)


def _check_shipped(site: Site, job: JobSpec) -> None:
    sources = [(f"file '{file.name}'", file.source) for file in job.files]
    if job.environment.archive:
        sources.append(("environment archive", job.environment.archive))
    missing = []
    for what, source in sources:
        if "://" not in source:
            if not Path(source).exists():
                missing.append(f"{what}: there is no {source} on this machine")
        elif not _exists(site, source):
            missing.append(f"{what}: there is no {source}")
    if missing:
        raise BadSpec("\n".join(missing), hint="Check the paths under files, code, environment.")


def _check_inputs(site: Site, job: JobSpec) -> None:
    missing = [item for item in job.inputs if not _exists(site, item.uri)]
    if missing:
        raise BadSpec(
            "\n".join(f"input '{item.name}': there is no {item.uri}" for item in missing),
            hint="Check data.inputs; the job would only fail on its GPUs.",
        )


def _check_output(site: Site, job: JobSpec) -> None:
    """That the output can be made when the gang has succeeded, as far as can be known now."""
    if not job.output:
        return
    files, path = file_system_of(site, job.output)
    with hdfs_errors(f"looking for {job.output}"):
        is_there = files.exists(path)
        is_empty = is_there and files.stat(path).is_dir and not files.list(path)
    if is_there and not is_empty and not job.storing.replace:
        raise BadSpec(
            f"output: {job.output} is there already",
            hint="Name another directory under data.outputs, remove this one, or say that it may"
            f" be replaced: outputs: {{path: {job.output}, replace: true}}",
        )
    above = uris.parent(path)
    with hdfs_errors(f"looking for {above}"):
        while not files.exists(above):
            above = uris.parent(above)
        status, root = files.stat(above), files.stat("/")
    if not status.is_dir:
        raise BadSpec(f"output: {job.output} cannot be made: {above} is a file")
    may_write = site.user in {status.owner, root.owner} or status.permission & 0o022
    if not may_write:
        raise NoPermission(
            f"output: {site.user} may not write to {above}, which is {status.owner}'s",
            hint="The output and the tasks' places are made there; choose another directory.",
        )


def _exists(site: Site, uri: str) -> bool:
    files, path = file_system_of(site, uri)
    with hdfs_errors(f"looking for {uri}"):
        return files.exists(path)


def file_system_of(site: Site, uri: str) -> tuple[FileSystem, str]:
    """The cluster's own file system, or the one that the URI names; and the path on it."""
    parts = urlsplit(uri)
    if parts.scheme and parts.netloc and not site.files.uri.endswith(f"//{parts.netloc}"):
        from hdfs_utils import connect
        from yarnam.client.site import HDFS_LIMITS

        with hdfs_errors(f"reaching {uri}"):
            files = connect(uri, conf_dir=str(site.conf_dir), limits=HDFS_LIMITS)
            return files, files.own_path(uri)
    return site.files, parts.path if parts.scheme else uri


def _check_home(site: Site) -> None:
    """Staging needs the user's home directory; making it may need an administrator."""
    home = site.places.home
    with hdfs_errors(f"looking for {home}"):
        if site.files.exists(home):
            return
    with hdfs_errors("looking at HDFS"):
        parent = home.rpartition("/")[0]
        if not site.files.exists(parent):
            return  # mkdirs will tell; an empty HDFS of one's own has no /user yet
        status = site.files.stat(parent)
    if status.owner != site.user and not status.permission & 0o002:
        raise NoPermission(
            f"{home} does not exist, and {site.user} may not make it",
            hint="Ask an administrator of HDFS for a home directory.",
        )
