"""From what a user types to one job: an application id, the start of a name, or ``last``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from yarnam.adapters.rm_parse import YarnApplication
from yarnam.client.places import key_in
from yarnam.client.site import Site
from yarnam.errors import UsageError
from yarnam.wire.protocol import APPLICATION_TAG

LAST = "last"
_APPLICATION = re.compile(r"application_\d+_\d+")
_MAX_SHOWN = 10


def jobs_on(site: Site, *, user: str = "", states: Sequence[str] = ()) -> list[YarnApplication]:
    """The applications of yarnam's that YARN knows, newest first."""
    found = site.rm.applications(user=user, tags=[APPLICATION_TAG], states=states)
    return [application for application in found if key_in(application.tags)]


def find_application(site: Site, reference: str) -> str:
    """The application id that is meant.

    A name stands for its one living job, or for its newest when none lives; ``last`` for the
    user's newest. Raises UsageError when nothing or more than one thing is meant.
    """
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
            f"{site.user} has no job whose name begins with '{reference}'",
            hint=f"There are: {', '.join(names)}" if names else "There are none on this cluster.",
        )
    alive = [job for job in matches if not job.is_over]
    if len(alive) == 1:
        return alive[0].application
    if alive:
        raise UsageError(f"'{reference}' means {len(alive)} jobs", hint=_listing(alive))
    if len({job.name for job in matches}) > 1:
        raise UsageError(f"'{reference}' means several jobs", hint=_listing(matches))
    return matches[0].application


def _listing(jobs: Sequence[YarnApplication]) -> str:
    lines = [f"{job.application}  {job.name}  {job.state}" for job in jobs[:_MAX_SHOWN]]
    return "\n".join(["Name one of them by its id:", *lines])
