"""From a checked job to a running application, or to nothing at all."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

from hdfs_utils import HdfsError
from yarnam.client.checks import CheckedJob, check_job
from yarnam.client.places import new_key, tag_of
from yarnam.client.runtime import python_version
from yarnam.client.site import NODE_PYTHON_VARIABLE, Site
from yarnam.client.staging import Say, Staged, Staging
from yarnam.errors import BadSpec, YarnamError
from yarnam.model.ids import ApplicationId
from yarnam.model.job import JobSpec
from yarnam.ports.submission import Launcher

GONE_LIMIT_S = 10.0
"""How long a failed submit waits for YARN to say that its application is gone."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """What YARN has taken."""

    application: ApplicationId
    key: str
    job_dir: str
    job: JobSpec


def submit_job(
    site: Site, job: JobSpec, launcher: Launcher, say: Say = lambda _: None
) -> Submitted:
    """Check, stage, submit. On any error or interrupt nothing of the job is left on the cluster.

    ``launcher`` may be starting meanwhile. Raises YarnamError.
    """
    say("Checking the job against the cluster")
    key = new_key()
    checked = check_job(site, job, seed=key)
    for warning in (w for outcome in checked.inputs for w in outcome.warnings):
        say(warning)
    if job.output or job.checkpoint.directory:
        from yarnam.client.probing import probe_targets

        probe_targets(site, job)
    if checked.inputs:
        from yarnam.client.input_checks import act_on_inputs

        for warning in act_on_inputs(checked.inputs, site.user):
            say(warning)
    staging = Staging(site, key, say)
    attempt = _Attempt(site, launcher, staging)
    try:
        say("Staging on HDFS")
        staged = staging.stage(checked, time.time())
        say("Submitting to YARN")
        application = attempt.submit(staged, checked)
    except BaseException:
        attempt.undo()
        raise
    staging.close()
    return Submitted(application, staging.key, staging.job_dir, staged.record.job)


class _Attempt:
    """Knows how far one submit has come, so that it can be undone from anywhere."""

    def __init__(self, site: Site, launcher: Launcher, staging: Staging) -> None:
        self._site = site
        self._launcher = launcher
        self._staging = staging
        self._may_exist = False
        self._application: ApplicationId | None = None

    def submit(self, staged: Staged, checked: CheckedJob) -> ApplicationId:
        from skein_specs import application_spec

        job = staged.record.job
        try:
            spec = application_spec(
                staged.record,
                am_files=staged.am_files,
                task_files=staged.task_files,
                security=self._launcher.new_security(),
                tags=(tag_of(self._staging.key), *job.tags),
                am_python=os.environ.get(NODE_PYTHON_VARIABLE) or os.path.realpath(sys.executable),
                python_version=python_version(),
            )
        except ValueError as error:
            raise BadSpec(f"Skein cannot run this job: {error}") from error
        self._may_exist = True
        self._application = self._launcher.submit(spec)
        # Lets a later client find the job's directory when the RM has forgotten the application.
        with suppress(HdfsError):
            self._site.quick.put(
                self._site.places.application(self._application), self._staging.key.encode()
            )
        return self._application

    def undo(self) -> None:
        """Kill what YARN may have taken, then remove the files. Raises nothing."""
        if self._may_exist:
            with suppress(YarnamError):
                self._kill()
        self._staging.undo()

    def _kill(self) -> None:
        applications = [self._application] if self._application else self._find()
        for application in applications:
            self._site.rm.kill(application)
            deadline = time.monotonic() + GONE_LIMIT_S
            while time.monotonic() < deadline:
                found = self._site.rm.application(application)
                if found is None or found.is_over:
                    break
                time.sleep(0.2)
            with suppress(HdfsError):
                self._site.files.delete(
                    self._site.places.skein_staging(application), recursive=True
                )
                self._site.files.delete(self._site.places.application(application))

    def _find(self) -> list[ApplicationId]:
        """Interrupted between asking and hearing the id: the tag names the application."""
        tag = tag_of(self._staging.key)
        found = self._site.rm.applications(user=self._site.user, tags=[tag])
        return [ApplicationId(app.application) for app in found]
