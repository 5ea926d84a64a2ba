"""Finds the job that a user refers to: by application id, start of a name, or ``last``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.client.site import Site
from yarnam.client.user_paths import key_in
from yarnam.errors import UsageError
from yarnam.wire.protocol import APPLICATION_TAG

LAST = "last"
_APPLICATION = re.compile(r"application_\d+_\d+")
_MAX_SHOWN = 10

LIVING = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")
"""YARN's states of an application that has not ended."""


def jobs_on(site: Site, *, user: str = "", states: Sequence[str] = ()) -> list[YarnApplication]:
    """The yarnam applications that YARN knows, newest first."""
    found = site.rm.applications(user=user, tags=[APPLICATION_TAG], states=states)
    return [application for application in found if key_in(application.tags)]


def find_application(site: Site, reference: str) -> str:
    """The application id of the job. A name refers to its only active job, or to its newest job if
    none is active; ``last`` to the user's newest job. Raises UsageError if no job or more than one
    matches."""
    if _APPLICATION.fullmatch(reference):
        return reference
    jobs = jobs_on(site, user=site.user)
    if reference == LAST:
        if not jobs:
            raise UsageError(f"{site.user} has no job on this cluster")
        return jobs[0].application
    matches = [job for job in jobs if job.name == reference]
    matches = matches or [job for job in jobs if job.name.startswith(reference)]
    if not matches:
        names = list(dict.fromkeys(job.name for job in jobs))[:_MAX_SHOWN]
        raise UsageError(
            f"{site.user} has no job whose name starts with '{reference}'",
            hint=f"Jobs: {', '.join(names)}"
            if names
            else f"{site.user} has no jobs on this cluster.",
        )
    alive = [job for job in matches if not job.is_over]
    if len(alive) == 1:
        return alive[0].application
    if alive:
        raise UsageError(f"'{reference}' matches {len(alive)} jobs", hint=_listing(alive))
    if len({job.name for job in matches}) > 1:
        raise UsageError(f"'{reference}' matches several jobs", hint=_listing(matches))
    return matches[0].application


def _listing(jobs: Sequence[YarnApplication]) -> str:
    lines = [f"{job.application}  {job.name}  {job.state}" for job in jobs[:_MAX_SHOWN]]
    return "\n".join(["Use the id of one of them:", *lines])
