"""Whether a job that is submitted gets a pre-run: not where its program has passed one before."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from yarnam.adapters.hdfs.pre_run_store import PassedPrograms
from yarnam.client.site import Site
from yarnam.core.model.job_spec import JobSpec, PreRunMode
from yarnam.core.model.job_status import measured_words
from yarnam.core.model.resources import Resources
from yarnam.errors import YarnamError
from yarnam.wire.codec import encode
from yarnam.wire.records import PreRunRecord

log = logging.getLogger("yarnam.submit")


@dataclass(frozen=True, slots=True)
class ShippedContent:
    """The identity of one file or archive of a job, wherever it lies."""

    name: str
    sha256: str
    size_bytes: int = 0
    modified_ms: int = 0
    """The time of a file that was on HDFS already, so that its content has not been read."""


@dataclass(frozen=True, slots=True)
class Program:
    """The program that a pre-run tries, without the values of secret variables."""

    framework: str
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    python: str
    resources: Resources
    """The resources of the pre-run's process."""
    shipped: tuple[ShippedContent, ...]

    @property
    def key(self) -> str:
        """SHA-256 in hex."""
        return hashlib.sha256(encode(self)).hexdigest()


def program_of(job: JobSpec, shipped: Iterable[ShippedContent]) -> Program:
    """The program of a job whose secrets have been emptied."""
    role = next(role for role in job.roles if role.name == job.leading_role)
    return Program(
        framework=job.framework,
        command=role.command,
        env=tuple(sorted((*job.env, *role.env))),
        python=job.environment.python,
        resources=job.as_pre_run().roles[0].resources,
        shipped=tuple(sorted(shipped, key=lambda file: file.name)),
    )


def with_pre_run(
    site: Site,
    job: JobSpec,
    shipped: Iterable[ShippedContent],
    report: Callable[[str], None] = lambda _: None,
) -> JobSpec:
    """The job with its pre-run decided. ``report`` gets the decision, and why."""
    key = program_of(job, shipped).key
    if job.pre_run.mode is PreRunMode.OFF:
        return replace(job, pre_run=replace(job.pre_run, key=key))
    record = passed_before(site, key) if job.pre_run.mode is PreRunMode.AUTO else None
    is_due = job.may_have_pre_run and record is None
    if is_due:
        report("One process is tried before the gang is acquired (pre_run)")
    elif record is not None and job.may_have_pre_run:
        facts = measured_words(record.step_s, record.peak_memory_mib)
        known = f" ({facts})" if facts else ""
        report(f"No pre-run: this program has passed one in {record.application}{known}")
    return replace(job, pre_run=replace(job.pre_run, is_due=is_due, key=key))


def passed_before(site: Site, key: str) -> PreRunRecord | None:
    """The record of an earlier pass. Where HDFS does not answer there is none."""
    try:
        return PassedPrograms(site.files, site.paths.pre_runs).find(key, site.user)
    except YarnamError as error:
        log.warning("earlier pre-runs are not known: %s", error.message)
        return None
