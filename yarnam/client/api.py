"""``yarnam.Client``: submit jobs and find them again."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union
from weakref import WeakSet

from yarnam._light_imports import on_first_use
from yarnam.client.job import Job, end_at_checkpoint
from yarnam.client.site import Site, open_site
from yarnam.client.submit.hdfs_store import OpenProgress, no_progress
from yarnam.client.user_paths import key_in
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.errors import BadSpec, PathTaken, YarnamError
from yarnam.errors.full_disks import full_disk_named

if TYPE_CHECKING:
    from typing_extensions import Self

    from yarnam.adapters.yarn.rest_parse import YarnApplication
    from yarnam.client.functions.function_executor import Executor
    from yarnam.client.functions.job_array import JobArray
    from yarnam.client.monitor.job_history import JobHistory
    from yarnam.client.planning.outlook import Outlook
    from yarnam.client.planning.queue_comparison import QueueOutlook
    from yarnam.client.submit.preflight import CheckedJob
    from yarnam.cluster.reporters import Reporter
    from yarnam.core.advice import Advice, Aim
    from yarnam.core.model.job_spec import Batch
    from yarnam.core.model.snapshot import Closures, ClusterSnapshot
    from yarnam.ports.job_access import Launcher

with on_first_use():
    from yarnam import cluster as yarnam_cluster
    from yarnam import spec as yarnam_spec
    from yarnam.client.functions import (
        array_members,
        call_package,
        earlier_jobs,
        function_executor,
        job_array,
    )
    from yarnam.client.monitor import job_history, job_sources, lookup, yarn_status
    from yarnam.client.planning import outlook, queue_comparison, size_advice
    from yarnam.client.queues import chosen_policies
    from yarnam.client.submit import (
        block_locality,
        idempotency,
        preflight,
        submit_job,
        waiting_jobs,
    )
    from yarnam.client.submit.claims import job_claims
    from yarnam.cluster import cluster_paths, reporters
    from yarnam.core import advice
    from yarnam.core.model import job_spec, snapshot
    from yarnam.spec import checks as yarnam_checks
    from yarnam.spec import loader as yarnam_loader

log = logging.getLogger("yarnam.client")

Spec = Union[str, "os.PathLike[str]", Mapping[str, Any], JobSpec]
"""A path to a YAML file; YAML text (a str with a newline); the same as a mapping; a JobSpec."""

PARALLEL_STATUS_READS = 16
"""Reading a status is an RPC to an AM or a small read from HDFS: nearly all waiting."""


class Client:
    """A connection to one cluster. Thread-safe, and picklable::

        with yarnam.Client() as client:
            job = client.submit("train.yaml")
            for status in job.watch():
                print(status.state.value, status.step, status.loss)
            print(job.wait().message)

    The cluster is the one of ``conf_dir``, by default of HADOOP_CONF_DIR; ``local=True`` uses
    the embedded cluster of this machine and starts it if needed; ``shared_machine`` allows that
    where other people use the machine, who can then run programs as this user. ``user`` is the user
    name for simple authentication. ``on_progress`` is called with a text at each step of a submit,
    ``open_progress`` with the name of each long one: it makes the object that counts the bytes.

    Sends nothing before the first call. Raises BadConfig if no cluster is configured.
    """

    def __init__(
        self,
        conf_dir: str | os.PathLike[str] | None = None,
        user: str | None = None,
        *,
        local: bool = False,
        shared_machine: bool = False,
        on_progress: Callable[[str], None] | None = None,
        open_progress: OpenProgress = no_progress,
        site: Site | None = None,
    ) -> None:
        self._report = on_progress or (lambda _: None)
        self._open_progress = open_progress
        if site is None:
            where = Path(conf_dir) if conf_dir is not None else None
            if local:
                reporter = reporters.PlainReporter() if on_progress is not None else None
                site = _local_site(user, reporter, shared_machine=shared_machine)
            else:
                site = open_site(where, user)
        self._site = site
        # A client of a pipeline lives for months: a job that its caller has forgotten is forgotten.
        self._jobs: WeakSet[Job] = WeakSet()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it without its connections and ``on_progress``."""
        return Client, (str(self._site.conf_dir), self._site.user)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def site(self) -> Site:
        """The cluster's adapters, for example for ``yarnam doctor``."""
        return self._site

    def submit(
        self,
        spec: Spec,
        *,
        queue: str | None = None,
        name: str | None = None,
        tags: Iterable[str] = (),
        idempotency_key: str | None = None,
        takeover: bool | str = False,
        launcher: Launcher | None = None,
    ) -> Job:
        """Check the spec against the cluster, upload the job's files and start the job. ``tags``
        come on top of the spec's.

        ``idempotency_key`` (default: the spec's): if this user has submitted a job with this key
        before, that job is returned, whatever the spec is and however it ended. Of several submits
        with one key at a time, one starts the job, and the others return it.

        While a job that writes to the same ``checkpoint.directory`` or ``data.outputs`` has not
        ended, this one is refused. ``takeover``: end such a job of this user at a checkpoint first;
        with an application id, that one only.

        Returns when YARN has accepted it; ``Job.watch`` and ``Job.wait`` follow it from there. An
        error or interrupt leaves nothing on the cluster. ``launcher``: one for this cluster that is
        already starting, to use instead of the client's own; it is closed at the end.

        Raises BadSpec, NoPermission, NeverFits, PathTaken, DependencyFailed (before anything is
        submitted), BadConfig, Unavailable, DiskFull.
        """
        launcher = launcher or self._site.open_launcher()
        try:
            # Its JVM is the slowest part of a submit. A refused job stops it half-way.
            launcher.start()
            job = _tagged(self.parse(spec, queue=queue, name=name), tags)
            if idempotency_key:
                job = replace(job, idempotency_key=idempotency_key)
            return self._start(job, launcher, takeover=takeover)
        except PathTaken as error:
            raise _with_place(error, spec) from error
        finally:
            launcher.close()

    def submit_array(
        self,
        spec: Spec,
        indices: str | Iterable[int],
        *,
        most_at_once: int = 0,
        queue: str | None = None,
        name: str | None = None,
        tags: Iterable[str] = (),
        idempotency_key: str | None = None,
    ) -> JobArray:
        """A job of this spec for each index: ``range(10)``, or as text ``0-9``, ``1,5,7``,
        ``0-20:5``, and ``0-9%4`` for at most four at a time (``most_at_once``). In any text of the
        spec ``${YARNAM_ARRAY_INDEX}`` is the member's index; its processes have the variable too.

        Returns when the first member is submitted; the others are in the background
        (``JobArray.submitted``). The cap is kept by this process: it has to live until the last one
        is submitted. With an idempotency key each index starts one job, however often the array is
        submitted. Raises as ``submit``; UsageError for what names no indices.
        """
        found = job_array.indices_of(indices, most_at_once)
        job = _tagged(self.parse(spec, queue=queue, name=name), tags)
        if idempotency_key:
            job = replace(job, idempotency_key=idempotency_key)
        first = array_members.member_of(job, "0" * 12, found, found.indices[0])
        if not first.idempotency_key or self.submitted(first.idempotency_key) is None:
            # Else what has become of those jobs since matters to nobody.
            first = self._settled(first)
        preflight.check_job(self._site, first)

        def start(array_id: str, position: int) -> Job:
            return self._start_member(
                array_members.member_of(job, array_id, found, found.indices[position])
            )

        key = job.idempotency_key
        return job_array.new_array(self._site, found, start, self._opened, idempotency_key=key)

    def job_array(self, array_id: str) -> JobArray:
        """An array by its id. Raises UsageError if the id is invalid; an array without members is
        empty."""
        return job_array.JobArray(self._site, array_id, self._opened)

    def executor(
        self, spec: Spec, *, queue: str | None = None, name: str | None = None
    ) -> Executor:
        """Runs Python functions as jobs of this spec, which has one role, and as a mapping needs
        neither ``command`` nor ``name``::

            executor = client.executor({"queue": "root.dl", "gpus": 1})
            print(executor.submit(train, lr=0.1).result())

        The job's Python has to have the version of this one. Raises BadSpec; BadConfig without
        cloudpickle.
        """
        call_package.require_cloudpickle()
        job = self.parse(function_executor.with_command(spec), queue=queue, name=name)
        return function_executor.Executor(self._site, job, self._start_member, self._opened)

    def submitted(self, idempotency_key: str) -> Job | None:
        """The job that this user's submits with this key have started; ``None`` if there is none.
        Waits for a submit under way, as ``submit`` does. Raises Unavailable."""
        found = idempotency.IdempotencyKey(
            self._site, idempotency_key, self._report
        ).earlier_submit()
        return None if found is None else self._handle(found.application, found.key, "")

    def plan(self, spec: Spec, *, queue: str | None = None, name: str | None = None) -> CheckedJob:
        """The checked job and its ladder of placements, without submitting or writing anything.
        Raises as ``submit`` does."""
        job = self.parse(spec, queue=queue, name=name)
        return preflight.check_job(self._site, self._settled(job))

    def outlook(self, spec: Spec, *, queue: str | None = None, name: str | None = None) -> Outlook:
        """Where the job would run now: its ladder, nodes and ranks, and what blocks it. Raises as
        ``plan`` does."""
        checked = self.plan(spec, queue=queue, name=name)
        seen = snapshot.with_closures(checked.snapshot, self._closures())
        checked = replace(checked, snapshot=seen)
        known = size_advice.known_runs(self._site, checked.job)
        line = waiting_jobs.read_wait_queue(self._site)
        found = outlook.outlook(checked, line, known.pre_run)
        return replace(found, predicted=size_advice.predicted(found, known))

    def advise(
        self,
        spec: Spec,
        *,
        aim: Aim | str = "gpus",
        batch: Batch | str | None = None,
        most_gpus: int | None = None,
        queue: str | None = None,
    ) -> Advice:
        """Which sizes of the gang would pay, from the speed of this user's earlier runs of the same
        program. ``aim``: ``gpus`` (the fewest that end within 10 % of the soonest time),
        ``finish`` (the soonest end) or ``cost`` (the fewest GPU-hours). ``batch``: ``global`` if
        the processes divide one batch, ``per-process`` if each has its own; by default as the spec
        has it, else as the measured compute suggests. Starts nothing. Raises
        BadSpec, UsageError, Unavailable."""
        job = self.parse(spec, queue=queue)
        kind = None if batch is None else job_spec.Batch(batch)
        return self._advice(job, advice.Aim(aim), kind, most_gpus)

    def _advice(
        self, job: JobSpec, aim: Aim, batch: Batch | None, most_gpus: int | None = None
    ) -> Advice:
        job = replace(job, queue=preflight.full_queue_name(job.queue))
        seen = snapshot.with_closures(
            self._site.snapshot(job.queue, job.node_labels), self._closures()
        )
        return size_advice.size_advice(
            job, seen, waiting_jobs.read_wait_queue(self._site),
            size_advice.known_runs(self._site, job),
            data=block_locality.input_bytes_by_node(self._site, job, seen),
            aim=aim, batch=batch, most_gpus=most_gpus,
        )  # fmt: skip

    def compare_queues(
        self, spec: Spec, *, queue: str | None = None, name: str | None = None
    ) -> tuple[QueueOutlook, ...]:
        """When the job would start in each queue, the earliest first. Who may submit there is not
        checked, except for the spec's own queue. Raises as ``plan`` does."""
        waiting = waiting_jobs.read_wait_queue(self._site)
        found = outlook.outlook(self.plan(spec, queue=queue, name=name), waiting)
        return queue_comparison.compare_queues(found, waiting)

    def nodes(self) -> ClusterSnapshot:
        """The cluster now: nodes with all known GPU models and what administrators keep closed, and
        all leaf queues. Raises Unavailable, BadConfig."""
        found = snapshot.with_closures(self._site.snapshot("root"), self._closures())
        return found if found.queues else replace(found, queues=tuple(self._site.rm.queues()))

    def parse(self, spec: Spec, *, queue: str | None = None, name: str | None = None) -> JobSpec:
        """The spec as a job of this user; ``queue`` and ``name`` override the spec's.

        Raises BadSpec with every problem, with file and line if there is a file.
        """
        job = _parsed(spec, self._site.user)
        changes: dict[str, Any] = {}
        if queue:
            changes["queue"] = queue
        if name:
            changes["name"] = name
        if job.user != self._site.user:
            changes["user"] = self._site.user
        return replace(job, **changes) if changes else job

    def job(self, reference: str) -> Job:
        """A job by its application id, the start of its name, or ``last`` for the newest one.

        Raises UsageError if none or several match.
        """
        return self._handle(lookup.find_application(self._site, reference), "", "")

    def jobs(
        self,
        *,
        include_ended: bool = False,
        user: str | None = None,
        state: JobState | None = None,
        queue: str | None = None,
        name: str = "",
        tags: Iterable[str] = (),
        since_s: float | None = None,
    ) -> list[JobStatus]:
        """Jobs, newest first: the active ones; with ``include_ended`` all that YARN still knows.

        ``user``: None for your own jobs, empty for those of all users. ``queue``: its full name.
        ``name``: the start of the job's name. ``tags``: all of them. ``since_s``: submitted then or
        later, in seconds since the epoch. For jobs of other users only YARN's information is
        available. Costs the ResourceManager one request.
        """
        whose = self._site.user if user is None else user
        include_ended = include_ended or (state is not None and state.is_final)
        states = () if include_ended else lookup.LIVING
        wanted = frozenset(tags)
        applications = [
            one
            for one in lookup.jobs_on(self._site, user=whose, states=states)
            if one.name.startswith(name)
            and queue in (None, one.queue)
            and wanted <= frozenset(one.tags)
            and (since_s is None or one.started_at_s >= since_s)
        ]
        with ThreadPoolExecutor(PARALLEL_STATUS_READS, thread_name_prefix="status") as pool:
            found = list(pool.map(self._status_of, applications))
        return [status for status in found if state in (None, status.state)]

    @property
    def history(self) -> JobHistory:
        """The jobs that have ended, from their records on HDFS."""
        return job_history.JobHistory(self._site)

    @property
    def policies(self) -> chosen_policies.ChosenPolicies:
        """The scheduling policies of the queues."""
        return chosen_policies.ChosenPolicies(self._site)

    def close(self) -> None:
        """Close all connections. Idempotent; jobs continue."""
        for job in list(self._jobs):
            job.close()

    def _start_member(self, job: JobSpec, *, key: str = "") -> Job:
        launcher = self._site.open_launcher()
        try:
            launcher.start()
            return self._start(job, launcher, key=key)
        finally:
            launcher.close()

    def _start(
        self, job: JobSpec, launcher: Launcher, *, key: str = "", takeover: bool | str = False
    ) -> Job:
        others = job_claims.OtherJobs(
            lambda application: self._status_of(application).state.value,
            partial(end_at_checkpoint, self._site),
            takeover,
        )
        scratch = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - it is only named
        with full_disk_named(self._site.cache, scratch):
            made = submit_job.submit_job(
                self._site, job, launcher, others, self._report, self._open_progress, key=key,
                settle=self._settled,
            )  # fmt: skip
        return self._handle(made.application, made.key, self._site.user)

    def _closures(self) -> Closures:
        try:
            return waiting_jobs.read_closures(self._site)
        except YarnamError as error:
            log.warning("cordons and stopped queues are not known now: %s", error.message)
            return snapshot.Closures()

    def _settled(self, job: JobSpec) -> JobSpec:
        """Look up what the spec leaves open: the jobs that it waits for, and a size by advice.
        Nothing is loaded for a job that has neither."""
        if job.depends_on:
            job = earlier_jobs.with_earlier_jobs(self._site, job)
        if not job.elastic.by_advice:
            return job
        return size_advice.with_advised_size(
            job, lambda batch: self._advice(job, advice.Aim.GPUS, batch), self._report
        )

    def _opened(self, application: str) -> Job:
        return self._handle(application, "", self._site.user)

    def _handle(self, application: str, key: str, user: str) -> Job:
        job = Job(self._site, application, key=key, user=user)
        self._jobs.add(job)
        return job

    def _status_of(self, application: YarnApplication) -> JobStatus:
        """The full status of a job of this user. Other users' job directories are not read: a list
        of everybody's jobs must not depend on any one of them."""
        if application.user != self._site.user:
            return yarn_status.yarn_status(application, "it is another user's job")
        key = key_in(application.tags) or ""
        sources = job_sources.JobSources(self._site, application.application, key, application.user)
        try:
            return sources.status(application=application).status
        except YarnamError as error:
            return yarn_status.yarn_status(application, error.message)
        except Exception as error:
            log.debug("a fault while %s was asked for", application.application, exc_info=True)
            return yarn_status.yarn_status(
                application, f"its status cannot be read: {type(error).__name__}"
            )
        finally:
            sources.close()


def _tagged(job: JobSpec, tags: Iterable[str]) -> JobSpec:
    """Raises BadSpec."""
    wanted = tuple(dict.fromkeys((*job.tags, *tags)))
    if wanted == job.tags:
        return job
    for index, message in yarnam_checks.tag_problems(wanted):
        what = "tags" if index is None else f"the tag {wanted[index]!r}"
        raise BadSpec(f"{what}: {message}")
    return replace(job, tags=wanted)


def _with_place(error: PathTaken, spec: Spec) -> PathTaken:
    """The error with the file and line of the spec's key, where the spec has them."""
    place = ""
    if not isinstance(spec, (JobSpec, Mapping)):
        place = yarnam_loader.place_of(spec, error.spec_key)
    message = f"{place}: {error.message}" if place else error.message
    return PathTaken(
        message, hint=error.hint, spec_key=error.spec_key, application=error.application
    )


def _parsed(spec: Spec, user: str) -> JobSpec:
    if isinstance(spec, JobSpec):
        return spec
    if isinstance(spec, Mapping):
        return yarnam_spec.parse_spec_dict(spec, user=user)
    if isinstance(spec, str) and "\n" in spec:
        return yarnam_spec.parse_spec_text(spec, user=user)
    return yarnam_spec.parse_spec_file(spec, user=user)


def _local_site(user: str | None, reporter: Reporter | None, *, shared_machine: bool) -> Site:
    """The embedded cluster that ``yarnam cluster env`` named, else the default one; up if not."""
    name = os.environ.get("YARNAM_CLUSTER") or cluster_paths.DEFAULT_NAME
    cluster = yarnam_cluster.EmbeddedCluster(
        name=name, reporter=reporter, shared_machine=shared_machine
    )
    cluster.up()
    return open_site(cluster.conf_dir, user, environ=cluster.environ())
