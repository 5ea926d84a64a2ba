"""Looks up the jobs that a job waits for (``depends_on``), when it is submitted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.client.functions.array_members import SIZE_VARIABLE, tag_of_array
from yarnam.client.monitor import lookup
from yarnam.client.monitor.job_sources import JobSources
from yarnam.client.site import Site
from yarnam.client.user_paths import key_in
from yarnam.core.model.job_spec import Dependency, JobCondition, JobSpec
from yarnam.core.model.job_status import JobState
from yarnam.errors import BadSpec, DependencyFailed, UsageError, YarnamError

_ARRAY = re.compile(r"[0-9a-f]{12}")
_APPLICATION = re.compile(r"application_\d+_\d+")
ORDER_HINT = "A job is submitted after those that it depends on. To list jobs: yarnam ps --all"


def with_earlier_jobs(site: Site, job: JobSpec) -> JobSpec:
    """The job with the applications of its ``depends_on``.

    They have all been submitted before, so no cycle can arise. Raises BadSpec (there is no such
    job, or several), DependencyFailed (one has failed already, and success is required),
    Unavailable."""
    if not job.depends_on:
        return job
    found = tuple(
        replace(one, applications=tuple(app.application for app in _looked_up(site, number, one)))
        for number, one in enumerate(job.depends_on)
    )
    return replace(job, depends_on=found)


def _looked_up(site: Site, number: int, given: Dependency) -> Sequence[YarnApplication]:
    key = f"depends_on[{number}]"
    found = list(_applications(site, key, given.job))
    if given.when is JobCondition.SUCCEEDED:
        for app in found:
            if app.job_state.is_final and app.job_state is not JobState.SUCCEEDED:
                raise DependencyFailed(
                    f"{key}: {given.job} ({app.application}) has ended as {app.job_state.value}, "
                    "so it can no longer succeed",
                    hint=f"See why: yarnam explain {app.application}\nTo run after it however it "
                    "ended, write `when: ended`.",
                )
    return found


def _applications(site: Site, key: str, reference: str) -> Iterator[YarnApplication]:
    if _APPLICATION.fullmatch(reference):
        app = site.rm.application(reference)
        if app is None:
            raise BadSpec(f"{key}: YARN knows no application {reference}", hint=ORDER_HINT)
        yield app
        return
    jobs = lookup.jobs_on(site, user=site.user)
    if _ARRAY.fullmatch(reference):
        tag = tag_of_array(reference)
        members = [job for job in jobs if tag in job.tags]
        if members:
            _check_complete(site, key, reference, members)
            yield from members
            return
    named = [job for job in jobs if job.name == reference]
    if not named:
        raise BadSpec(f"{key}: {site.user} has no job {reference!a}", hint=ORDER_HINT)
    try:
        chosen = lookup.find_application(site, reference)
    except UsageError as error:
        raise BadSpec(f"{key}: {error.message}", hint=error.hint) from error
    yield from (job for job in named if job.application == chosen)


def _check_complete(site: Site, key: str, array: str, members: Sequence[YarnApplication]) -> None:
    """Raises BadSpec: members of the array are still to be submitted, and nobody knows when."""
    first = members[0]
    sources = JobSources(site, first.application, key_in(first.tags) or "", first.user)
    try:
        env = dict(sources.record().job.env)
    except YarnamError as error:
        raise BadSpec(f"{key}: the size of the array {array} is not known: {error.message}") from (
            error
        )
    finally:
        sources.close()
    size = env.get(SIZE_VARIABLE, "")
    if size.isdigit() and len(members) < int(size[:6]):
        raise BadSpec(
            f"{key}: {len(members)} of the {size} members of the array {array} are submitted",
            hint="The others come while these run (%N). Submit this job when the array's own "
            f"submit has ended, or name members. To list them: yarnam ps --array {array}",
        )
