"""Submits a checked job, or leaves nothing behind."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hdfs_utils import HdfsError
from yarnam._light_imports import on_first_use
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.client.environments.runtime_archive import python_version
from yarnam.client.site import NODE_PYTHON_VARIABLE, Site
from yarnam.client.submit import idempotency
from yarnam.client.submit.claims.job_claims import JobClaims, OtherJobs
from yarnam.client.submit.hdfs_store import (
    HdfsStore,
    OpenProgress,
    ReportProgress,
    no_progress,
    stored_environment,
)
from yarnam.client.submit.preflight import CheckedJob, check_job
from yarnam.client.submit.upload import KEYTAB_VARIABLE, JobUpload, UploadedJob
from yarnam.client.user_paths import UserPaths, new_key, tag_of
from yarnam.core.model.ids import ApplicationId
from yarnam.core.model.job_spec import NOTEBOOK_TOKEN, EnvironmentSpec, JobSpec
from yarnam.core.model.printable import MOST_SHOWN_AT_S, within
from yarnam.core.queues.queue_state import names_queue
from yarnam.errors import BadConfig, BadSpec, YarnamError
from yarnam.ports.job_access import Launcher
from yarnam.wire.protocol import LOCAL_KEYTAB_FILE

with on_first_use():
    import skein_specs
    from yarnam.client.environments import packed_environment
    from yarnam.client.submit import input_preflight
    from yarnam.spec import failure_rules

KILL_CONFIRM_LIMIT_S = 10.0
"""How long a failed submit waits for YARN to say that its application is gone."""

TOKEN_BYTES = 24
"""The secret of a notebook. Ours."""

Settle = Callable[[JobSpec], JobSpec]


@dataclass(frozen=True, slots=True)
class Submitted:
    """An application that YARN has accepted."""

    application: ApplicationId
    key: str
    job_dir: str
    job: JobSpec


def submit_job(
    site: Site,
    job: JobSpec,
    launcher: Launcher,
    others: OtherJobs,
    report: ReportProgress = lambda _: None,
    open_progress: OpenProgress = no_progress,
    *,
    key: str = "",
    settle: Settle = lambda job: job,
) -> Submitted:
    """Check, claim, stage, submit. On any error or interrupt nothing of the job is left on the
    cluster. ``launcher`` may be starting meanwhile. ``key``: of the job's directory, new for each
    call; by default it gets one here. ``settle`` looks up the jobs that it refers to; it is called
    for a new job only. An environment that is packed for the job stays, for the next one. Raises
    YarnamError.

    A job with an idempotency key that was submitted before is returned as it is. When it is not
    known whether YARN has the application, it stays, and the next submit with this key finds it.
    """
    if not job.idempotency_key:
        return _submit(
            site, settle(job), launcher, others, report, open_progress, None, key or new_key()
        )
    idempotency_key = idempotency.IdempotencyKey(site, job.idempotency_key, report)
    while True:
        if (found := idempotency_key.earlier_submit()) is not None:
            report(f"This idempotency key has started {found.application} already")
            application = ApplicationId(found.application)
            return Submitted(application, found.key, site.paths.job(found.key), job)
        with suppress(idempotency.KeyTaken):
            return _submit(
                site, settle(job), launcher, others, report, open_progress, idempotency_key,
                key or new_key(),
            )  # fmt: skip


def _submit(
    site: Site,
    job: JobSpec,
    launcher: Launcher,
    others: OtherJobs,
    report: ReportProgress,
    open_progress: OpenProgress,
    idempotency_key: idempotency.IdempotencyKey | None,
    key: str,
) -> Submitted:
    report("Checking the job against the cluster")
    job = as_notebook(_with_site_rules(site, job), site.paths)
    checked = check_job(site, job, seed=key, record=input_preflight.record_proved)
    for warning in (w for outcome in checked.inputs for w in outcome.warnings):
        report(warning)
    claims = JobClaims(site, job, key, others, report, idempotency_key)
    staging = JobUpload(site, key, report)
    attempt = _Attempt(site, launcher, staging, claims, report, idempotency_key)
    try:
        if not claims.take():
            raise idempotency.KeyTaken
        if checked.inputs:
            for warning in input_preflight.apply_input_decisions(checked.inputs, site.user):
                report(warning)
        if job.environment.packed_from is not None:
            environment = _packed(site, job.environment, report, open_progress)
            checked = replace(checked, job=replace(checked.job, environment=environment))
        report("Staging on HDFS")
        staged = staging.stage(checked, time.time())
        claims.confirm()
        if idempotency_key is not None:
            idempotency_key.take(key, ends_with_client=launcher.allot())
        report("Submitting to YARN")
        application = attempt.submit(staged, checked)
        if idempotency_key is not None:
            idempotency_key.confirm(key, application)
    except BaseException:
        attempt.undo()
        raise
    finally:
        claims.settle()
    staging.close()
    end_s = launcher.tokens_end_s()
    if end_s is not None and LOCAL_KEYTAB_FILE not in staged.am_files:
        report(tokens_notice(application, end_s))
    return Submitted(application, staging.key, staging.job_dir, staged.record.job)


def _with_site_rules(site: Site, job: JobSpec) -> JobSpec:
    """Add the administrators' failure rules after its own, and their word on sessions."""
    job = replace(job, interactive=job.interactive and site.has_sessions)
    rules = failure_rules.site_rules(site.conf_dir, site.environ)
    if not rules:
        return job
    return replace(job, retry=replace(job.retry, rules=(*job.retry.rules, *rules)))


def as_notebook(job: JobSpec, paths: UserPaths) -> JobSpec:
    """A notebook with a new secret, and with a directory of its name unless it has one. Any other
    job is unchanged. Raises BadConfig (the site has no sessions)."""
    if job.notebook is None:
        return job
    if not job.interactive:
        raise BadConfig(
            "a notebook is reached by a session, and this site has sessions off",
            hint="An administrator sets yarnam.interactive in yarn-site.xml: yarnam docs hands-on",
        )
    checkpoint = job.checkpoint
    if not checkpoint.directory:
        checkpoint = replace(checkpoint, directory=paths.notebook(job.name))
    env = dict(job.env) | {NOTEBOOK_TOKEN: secrets.token_hex(TOKEN_BYTES)}
    hidden = tuple(sorted({*job.secret_env, NOTEBOOK_TOKEN}))
    return replace(job, checkpoint=checkpoint, env=tuple(env.items()), secret_env=hidden)


def tokens_notice(application: ApplicationId, end_s: float) -> str:
    """The notice for a job whose tokens end; ``end_s`` in seconds since 1970."""
    end = time.strftime("%Y-%m-%d %H:%M", time.localtime(within(end_s, MOST_SHOWN_AT_S)))
    return (
        f"The job can live until {end}, when its delegation tokens end, or longer with "
        f"{KEYTAB_VARIABLE} or 'yarnam tokens refresh {application}'"
    )


def _packed(
    site: Site, spec: EnvironmentSpec, report: ReportProgress, open_progress: OpenProgress
) -> EnvironmentSpec:
    """The environment with its archive on HDFS, made unless it is there."""
    if spec.packed_from is None:
        return spec
    recipe = packed_environment.recipe_of(spec.packed_from, site.cache, site.environ)
    directory = site.paths.environments
    store = HdfsStore(site, report, open_progress)

    def built() -> dict[str, Path]:
        paths = packed_environment.build_environment(recipe, site.cache, report, open_progress)
        return {path.name: path for path in paths}

    def stored(name: str, what: str) -> str:
        return store.store_once(lambda: (archives or built())[name], directory, name, what)

    with hdfs_errors(f"checking {directory}"):
        names = stored_environment(site.files, directory, recipe.key)
    archives = {} if names else built()
    first, *others = names or list(archives)
    # First the layers, so that an environment that is there has them.
    layers = tuple(stored(name, "its large packages") for name in others)
    archive = stored(first, "the environment")
    return replace(spec, archive=archive, layers=layers, packed_from=None)


class _Attempt:
    """Knows how far one submit has come, so that it can be undone from anywhere."""

    def __init__(
        self,
        site: Site,
        launcher: Launcher,
        staging: JobUpload,
        claims: JobClaims,
        report: ReportProgress,
        idempotency_key: idempotency.IdempotencyKey | None = None,
    ) -> None:
        self._site = site
        self._report = report
        self._launcher = launcher
        self._staging = staging
        self._claims = claims
        self._idempotency_key = idempotency_key
        self._may_exist = False
        self._application: ApplicationId | None = None

    def submit(self, staged: UploadedJob, checked: CheckedJob) -> ApplicationId:
        job = staged.record.job
        try:
            spec = skein_specs.application_spec(
                staged.record,
                am_files=staged.am_files,
                task_files=staged.task_files,
                security=self._launcher.new_security(),
                tags=self._tags(job),
                node_python=os.environ.get(NODE_PYTHON_VARIABLE, ""),
                client_python=os.path.realpath(sys.executable),
                python_version=python_version(),
            )
        except ValueError as error:
            raise BadSpec(f"Skein cannot run this job: {error}") from error
        self._may_exist = True
        self._application = self._launcher.submit(
            spec,
            job.am,
            keep_unknown=self._idempotency_key is not None,
        )
        self._check_queue(job)
        # Lets a later client find the job's directory when the RM has forgotten the application.
        with suppress(HdfsError):
            self._site.quick.put(
                self._site.paths.application(self._application), self._staging.key.encode()
            )
        return self._application

    def _check_queue(self, job: JobSpec) -> None:
        """Report where YARN has put the application, if not where its spec says."""
        accepted = self._launcher.accepted_queue()
        if not accepted or names_queue(accepted, job.queue):
            return
        text = f"YARN has put the job into queue {accepted}, not into {job.queue} of its spec"
        if job.exact_queue:
            raise BadConfig(
                f"{text}, and `placement: exact` does not allow that",
                hint="The administrator's placement rules decide. Use a queue that they leave to "
                "you, or remove `placement: exact`.",
            )
        self._report(
            f"{text}: its placement rules decide. To refuse that, write "
            f"`queue: {{name: {job.queue}, placement: exact}}`"
        )

    def undo(self) -> None:
        """Kill what YARN may have taken, then remove the files. Raises nothing."""
        is_gone = not self._may_exist
        if self._may_exist:
            with suppress(YarnamError):
                is_gone = self._kill()
        if self._idempotency_key is not None and not is_gone:
            # Without its files the application could not run, and its key would refer to it.
            self._staging.close()
            return
        self._staging.undo()
        self._claims.drop()
        if self._idempotency_key is not None:
            self._idempotency_key.drop(self._staging.key)

    def _tags(self, job: JobSpec) -> tuple[str, ...]:
        own = (
            (tag_of(self._staging.key),)
            if self._idempotency_key is None
            else (tag_of(self._staging.key), self._idempotency_key.tag)
        )
        return (*own, *job.tags)

    def _kill(self) -> bool:
        """Whether YARN reports that nothing of it runs."""
        is_gone = True
        for application in [self._application] if self._application else self._find():
            self._site.rm.kill(application)
            is_gone &= self._is_over(application)
            with suppress(HdfsError):
                self._site.files.delete(self._site.paths.skein_staging(application), recursive=True)
                self._site.files.delete(self._site.paths.application(application))
        return is_gone

    def _is_over(self, application: ApplicationId) -> bool:
        deadline = time.monotonic() + KILL_CONFIRM_LIMIT_S
        while time.monotonic() < deadline:
            found = self._site.rm.application(application)
            if found is None or found.is_over:
                return True
            time.sleep(0.2)
        return False

    def _find(self) -> list[ApplicationId]:
        """Interrupted between asking and hearing the id: the tag names the application."""
        tag = tag_of(self._staging.key)
        found = self._site.rm.applications(user=self._site.user, tags=[tag])
        return [ApplicationId(app.application) for app in found]
