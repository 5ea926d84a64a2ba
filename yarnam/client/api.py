"""``yarnam.Client``: submit jobs and find them again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Union

from yarnam.adapters.rm_parse import YarnApplication
from yarnam.client.checks import CheckedJob, check_job
from yarnam.client.job import Job
from yarnam.client.line import line_at
from yarnam.client.lookup import find_application, jobs_on
from yarnam.client.outlook import Outlook, outlook
from yarnam.client.places import key_in
from yarnam.client.site import Site, open_site
from yarnam.client.submit import submit_job
from yarnam.client.verdicts import yarn_status
from yarnam.errors import YarnamError
from yarnam.model.job import JobSpec
from yarnam.model.snapshot import ClusterSnapshot
from yarnam.model.status import JobState, JobStatus
from yarnam.ports.submission import Launcher

if TYPE_CHECKING:
    from typing_extensions import Self

Spec = Union[str, "os.PathLike[str]", Mapping[str, Any], JobSpec]
"""A path to a YAML file; YAML text (a str with a newline); the same as a mapping; a JobSpec."""

PARALLEL_LOOKS = 16
"""Each look is a question to an AM or a small read from HDFS: nearly all waiting."""

_LIVING = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")


class Client:
    """A cluster's door::

        with yarnam.Client() as client:
            job = client.submit("train.yaml")
            for status in job.watch():
                print(status.state.value, status.step, status.loss)
            print(job.wait().message)

    The cluster is the one of ``conf_dir``, by default of HADOOP_CONF_DIR; ``local=True`` takes
    the embedded cluster of this machine and brings it up if it is down. ``user`` is who to be
    under simple authentication. ``on_progress`` hears, in words, what a submit is doing.

    Nothing is sent before the first call. Raises BadConfig when no cluster is configured.
    """

    def __init__(
        self,
        conf_dir: str | os.PathLike[str] | None = None,
        user: str | None = None,
        *,
        local: bool = False,
        on_progress: Callable[[str], None] | None = None,
        site: Site | None = None,
    ) -> None:
        self._say = on_progress or (lambda _: None)
        if site is None:
            where = Path(conf_dir) if conf_dir is not None else None
            in_words = on_progress is not None
            site = _local_site(user, in_words=in_words) if local else open_site(where, user)
        self._site = site
        self._jobs: list[Job] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def site(self) -> Site:
        """The cluster's adapters, for ``yarnam doctor`` and the like."""
        return self._site

    def submit(
        self,
        spec: Spec,
        *,
        queue: str | None = None,
        name: str | None = None,
        launcher: Launcher | None = None,
    ) -> Job:
        """Check the spec against the cluster, stage what it ships, and start the job.

        Returns once YARN has taken it; ``Job.watch`` and ``Job.wait`` follow it from there. On any
        error or interrupt nothing of it is left on the cluster. ``launcher``: one for this cluster
        that is starting already, in place of the client's own; it is closed at the end.

        Raises BadSpec, NoPermission, NeverFits (before anything is asked of YARN), BadConfig,
        Unavailable.
        """
        launcher = launcher or self._site.open_launcher()
        try:
            # Its JVM is what a submit waits for longest. A refused job stops it half-way.
            launcher.start()
            job = self.parse(spec, queue=queue, name=name)
            submitted = submit_job(self._site, job, launcher, self._say)
        finally:
            launcher.close()
        return self._handle(submitted.application, submitted.key, self._site.user)

    def plan(self, spec: Spec, *, queue: str | None = None, name: str | None = None) -> CheckedJob:
        """What ``submit`` would do, with nothing asked of YARN and nothing written: the checked
        job and the ladder of placements. Raises as ``submit`` does."""
        return check_job(self._site, self.parse(spec, queue=queue, name=name))

    def outlook(self, spec: Spec, *, queue: str | None = None, name: str | None = None) -> Outlook:
        """What would become of the job now: the ladder, where it goes, its ranks, what is in its
        way. Raises as ``plan`` does."""
        return outlook(self.plan(spec, queue=queue, name=name), line_at(self._site))

    def nodes(self) -> ClusterSnapshot:
        """The cluster now: nodes with all known GPU models, and all leaf queues. Raises
        Unavailable, BadConfig."""
        found = self._site.snapshot("root")
        return found if found.queues else replace(found, queues=tuple(self._site.rm.queues()))

    def parse(self, spec: Spec, *, queue: str | None = None, name: str | None = None) -> JobSpec:
        """The spec as a job of this user, with ``queue`` and ``name`` in place of its own.

        Raises BadSpec with every problem, at file and line where there is one.
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
        """A job by its application id, by the start of its name, or the newest one (``last``).

        Raises UsageError when none or several are meant.
        """
        return self._handle(find_application(self._site, reference), "", "")

    def jobs(
        self,
        *,
        include_ended: bool = False,
        user: str | None = None,
        state: JobState | None = None,
    ) -> list[JobStatus]:
        """Jobs, newest first: the living ones; with ``include_ended`` all that YARN still knows.

        ``user``: whose; None: one's own; empty: everybody's. Of other people's jobs only what YARN
        tells is known.
        """
        whose = self._site.user if user is None else user
        include_ended = include_ended or (state is not None and state.is_final)
        states = () if include_ended else _LIVING
        applications = jobs_on(self._site, user=whose, states=states)
        with ThreadPoolExecutor(PARALLEL_LOOKS, thread_name_prefix="look") as pool:
            found = list(pool.map(self._status_of, applications))
        return [status for status in found if state in (None, status.state)]

    def close(self) -> None:
        """Let go of all connections. Idempotent; jobs go on."""
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            job.close()

    def _handle(self, application: str, key: str, user: str) -> Job:
        job = Job(self._site, application, key=key, user=user)
        self._jobs.append(job)
        return job

    def _status_of(self, application: YarnApplication) -> JobStatus:
        job = Job(
            self._site,
            application.application,
            key=key_in(application.tags) or "",
            user=application.user,
        )
        try:
            return job.status()
        except YarnamError as error:
            return yarn_status(application, error.message)
        finally:
            job.close()


def _parsed(spec: Spec, user: str) -> JobSpec:
    if isinstance(spec, JobSpec):
        return spec
    from yarnam.spec import parse_spec_dict, parse_spec_file, parse_spec_text

    if isinstance(spec, Mapping):
        return parse_spec_dict(spec, user=user)
    if isinstance(spec, str) and "\n" in spec:
        return parse_spec_text(spec, user=user)
    return parse_spec_file(spec, user=user)


def _local_site(user: str | None, *, in_words: bool) -> Site:
    """The embedded cluster that ``yarnam cluster env`` named, else the default one; up if not."""
    from yarnam.cluster import EmbeddedCluster
    from yarnam.cluster.places import DEFAULT_NAME
    from yarnam.cluster.progress import PlainLines

    name = os.environ.get("YARNAM_CLUSTER") or DEFAULT_NAME
    cluster = EmbeddedCluster(name=name, reporter=PlainLines() if in_words else None)
    cluster.up()
    return open_site(cluster.conf_dir, user, environ=cluster.environ())
