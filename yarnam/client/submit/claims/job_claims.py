"""Claims the directories that a job writes to, before anything of it is staged.

The claim is also the proof that the directory can be written to: no other check is as strong. HDFS
asks for room for a whole block with each replica before it takes the first byte, and the quota may
be that of any directory above.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from hdfs_utils import HdfsError
from hdfs_utils import uri as uris
from yarnam.adapters import submitter
from yarnam.adapters.hdfs.claim_files import ClaimFile, StoredClaim
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.adapters.hdfs.small_files import clock_s
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.client.site import Site, file_system_of
from yarnam.client.submit.claims.claim_decision import (
    GONE_LIMIT_S,
    UNDER_WAY_LIMIT_S,
    ClaimFacts,
    ClaimState,
    state_of,
)
from yarnam.client.submit.idempotency import IdempotencyKey
from yarnam.client.user_paths import tag_of
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.printable import MOST_SHOWN_AT_S, duration, within
from yarnam.errors import PathTaken, Unavailable, YarnamError
from yarnam.wire.protocol import AM_FILE
from yarnam.wire.shared.path_claim import ClaimedPath, PathClaim, claimed_paths

_submits_here: set[str] = set()
"""The keys of the submits that this process has in hand. A claim of this process with another key
is one that it could not remove, since HDFS was away when its submit failed."""

POLL_S = 0.5

_ROUNDS = 20
"""Other jobs that may claim the directory and end during one submit."""

_HIDES_JOBS = (
    "yarn.webapp.filter-entity-list-by-user",
    "yarn.resourcemanager.display.per-user-apps",
)
"""Today's name of the setting, and its former one."""

_AWAITED = (ClaimState.UNDER_WAY, ClaimState.HELD)
"""While the first submit with a key is in one of these, its job comes to be known."""


@dataclass(frozen=True, slots=True)
class OtherJobs:
    """A submit's access to the jobs that hold its directories."""

    state: Callable[[YarnApplication], str]
    """The state of a job, in the words of ``yarnam ps``."""
    end: Callable[[str, str], None]
    """Ends the job of this application at a checkpoint, for this reason. Raises YarnamError."""
    takeover: bool | str = False
    """Whether a job that holds a directory is ended; or the id of the only one that is."""


class JobClaims:
    """The claims of one submit.

    Args:
        site: the cluster.
        job: the job that is submitted.
        key: of the job's directory.
        others: the jobs that may hold its directories.
        report: gets what the user waits for.
        idempotency_key: the job's; ``None`` if it has none.
    """

    def __init__(
        self,
        site: Site,
        job: JobSpec,
        key: str,
        others: OtherJobs,
        report: Callable[[str], None],
        idempotency_key: IdempotencyKey | None = None,
    ) -> None:
        self._site = site
        self._targets = claimed_paths(job)
        self._idempotency_key = idempotency_key
        self._others = others
        self._report = report
        tag = "" if idempotency_key is None else idempotency_key.tag
        self._claim = PathClaim(
            key, site.user, job.name, site.rm.url, submitter.this_process(), tag
        )
        self._taken: list[ClaimFile] = []
        self._made: list[tuple[ClaimFile, list[str]]] = []
        """Directories that the claims have brought into being, the deepest first."""
        self._noticed: set[str] = set()
        self._is_replacing = False
        self._began_s = time.monotonic()

    def take(self) -> bool:
        """Claim all directories; False if another submit with the same idempotency key has started
        the job by now. Raises PathTaken: another job holds one; NoPermission (also: no quota left),
        Unavailable."""
        _submits_here.add(self._claim.key)
        for target in self._targets:
            files, path = file_system_of(self._site, target.uri)
            quick = self._site.quick if files is self._site.files else None
            file = ClaimFile(files, path, target, quick)
            with hdfs_errors(f"{target.spec_key}: cannot write to {target.uri}"):
                self._made.append((file, _missing_directories(file)))
            self._taken.append(file)
            if not self._take(file):
                return False
        return True

    def confirm(self) -> None:
        """Before YARN is asked: check that the claims stand, where another submit may have taken
        them for outdated. Raises PathTaken, Unavailable."""
        is_late = time.monotonic() - self._began_s > UNDER_WAY_LIMIT_S / 2
        if not (is_late or self._is_replacing):
            return
        for file in self._taken:
            if not self._is_own(file.read()):
                self._take(file)
            elif is_late:
                file.refresh(self._claim)

    def drop(self) -> None:
        """Remove what the submit has claimed. Raises nothing: an error is propagating."""
        for file in self._taken:
            with suppress(YarnamError):
                file.release(self._claim.key)
        for file, made in self._made:
            with suppress(HdfsError):
                for directory in made:
                    file.files.delete(directory)  # fails where something lies in it

    def settle(self) -> None:
        """The submit has ended, well or not."""
        _submits_here.discard(self._claim.key)

    def _take(self, file: ClaimFile) -> bool:
        gone_since: float | None = None
        rounds = 0
        while rounds < _ROUNDS:
            if file.create(self._claim):
                return True
            rounds += 1
            found = file.read()
            if found is None:
                continue  # Its job has just removed it.
            if self._is_own(found):
                return True  # The answer to creating it was lost.
            if found.claim is None:
                self._replace_unknown(file, found)
                continue
            facts = self._facts(file, found, found.claim)
            if facts.is_submitter_gone and facts.application is None:
                gone_since = gone_since or time.monotonic()
                facts = replace(facts, waited_s=time.monotonic() - gone_since)
            state = state_of(facts)
            if state is ClaimState.ENDED:
                self._is_replacing = True
                file.remove(found)
            elif state is ClaimState.UNSETTLED:
                self._wait("was killed: waiting for YARN to list its job", file, GONE_LIMIT_S)
                rounds -= 1
            elif (same := self._same_key(found.claim)) is not None and state in _AWAITED:
                if same.earlier_submit() is not None:
                    return False
                self._wait("with this idempotency key is under way", file, UNDER_WAY_LIMIT_S)
                rounds -= 1
            else:
                self._end_or_refuse(file, found, found.claim, state, facts.application)
        raise Unavailable(
            f"{file.target.spec_key}: other jobs claim {file.target.uri} again and again",
            hint="Give each job a directory of its own.",
        )

    def _same_key(self, claim: PathClaim) -> IdempotencyKey | None:
        """The job's idempotency key, if the claim is that of another submit with it."""
        return self._idempotency_key if claim.idempotency == self._claim.idempotency else None

    def _wait(self, why: str, file: ClaimFile, limit_s: float) -> None:
        if (notice := f"A submit to {file.target.uri} {why}") not in self._noticed:
            self._noticed.add(notice)
            self._report(f"{notice} (at most {duration(limit_s)})")
        time.sleep(POLL_S)

    def _is_own(self, found: StoredClaim | None) -> bool:
        return found is not None and found.claim is not None and found.claim.key == self._claim.key

    def _replace_unknown(self, file: ClaimFile, found: StoredClaim) -> None:
        """A claim is complete or absent, so what cannot be decoded is not one."""
        if not found.is_readable:
            raise PathTaken(
                f"{file.target.spec_key}: {file.target.uri} is claimed by a job of {found.owner}:"
                f" {file.path} may not be read",
                hint=f"Name another directory, or ask {found.owner}.",
                spec_key=file.target.spec_key,
            )
        self._report(f"{file.path} is not a claim of yarnam: replacing it")
        file.remove(found)

    # ---- the other job -----------------------------------------------------------------------

    def _application_of(self, claim: PathClaim) -> YarnApplication | None:
        found = self._site.rm.applications(user=claim.user, tags=[tag_of(claim.key)])
        return min(found, key=lambda app: app.is_over, default=None)

    def _facts(self, file: ClaimFile, found: StoredClaim, claim: PathClaim) -> ClaimFacts:
        site, is_of_user = self._site, claim.user == self._site.user
        application = self._application_of(claim)
        if application is not None:
            return ClaimFacts(application, is_of_this_cluster=True)
        is_here = urlsplit(claim.cluster).hostname in site.rm.hosts
        is_hidden = is_here and not is_of_user and self._hides_jobs()
        return ClaimFacts(
            None,
            is_of_this_cluster=is_here,
            is_hidden=is_hidden,
            has_started=is_here and is_of_user and self._has_started(claim),
            is_submitter_gone=submitter.is_gone(claim.submitter) or self._has_failed_here(claim),
            age_s=clock_s(file.files, uris.parent(file.path)) - found.written_at_s,
        )

    def _has_failed_here(self, claim: PathClaim) -> bool:
        is_of_this_process = claim.submitter and claim.submitter == self._claim.submitter
        return bool(is_of_this_process) and claim.key not in _submits_here

    def _hides_jobs(self) -> bool:
        """Whether the ResourceManager shows each user only their own jobs. Where it does not show
        its settings, it may: nobody's claim is taken over on a guess."""
        try:
            settings = self._site.rm.settings()
        except YarnamError:
            return True
        return any(settings.get(name, "") == "true" for name in _HIDES_JOBS)

    def _has_started(self, claim: PathClaim) -> bool:
        path = f"{self._site.paths.job(claim.key)}/{AM_FILE}"
        with hdfs_errors(f"checking {path}"):
            return self._site.files.exists(path)

    def _end_or_refuse(
        self,
        file: ClaimFile,
        found: StoredClaim,
        claim: PathClaim,
        state: ClaimState,
        application: YarnApplication | None,
    ) -> None:
        if state is not ClaimState.HELD or application is None:
            raise _refusal(file, claim, state, found.written_at_s)
        # The file's owner too: others may have put a claim there that names this user's job.
        may_end = application.user == self._site.user and found.owner in ("", self._site.user)
        other = application.application
        if not (may_end and self._others.takeover in (True, other)):
            state_word = self._others.state(application)
            raise _held(file.target, application, state_word, may_end=may_end)
        self._is_replacing = True
        self._report(f"Ending {other} ({application.name}) at a checkpoint")
        self._others.end(other, f"taken over by {self._claim.name} ({self._claim.key})")


def _missing_directories(file: ClaimFile) -> list[str]:
    """Those that the claim brings into being, the deepest first."""
    found, directory = [], uris.parent(file.path)
    while not file.files.exists(directory):
        found.append(directory)
        directory = uris.parent(directory)
    return found


def _held(
    target: ClaimedPath, application: YarnApplication, state: str, *, may_end: bool
) -> PathTaken:
    other = application.application
    message = (
        f"{target.spec_key}: {target.uri} belongs to {other} ({application.name}, of"
        f" {application.user}), which is {state}; submitted {_shown(application.started_at_s)}"
    )
    if not may_end:
        hint = f"Name another directory, or ask {application.user}."
        return PathTaken(message, hint=hint, spec_key=target.spec_key)
    hint = (
        f"Name another directory, or end the other job: yarnam kill {other}\n"
        "To end it at a checkpoint and start this job in its place: yarnam submit --takeover"
    )
    return PathTaken(message, hint=hint, spec_key=target.spec_key, application=other)


def _refusal(
    file: ClaimFile, claim: PathClaim, state: ClaimState, written_at_s: float
) -> PathTaken:
    since = _shown(written_at_s)
    message = (
        f"{file.target.spec_key}: {file.target.uri} belongs to job {claim.key} ({claim.name}, of"
        f" {claim.user}), submitted {since}"
    )
    remove = f"hdfs dfs -rm {file.path}"
    if state is ClaimState.ELSEWHERE:
        message += f", to another cluster ({claim.cluster})"
        hint = f"Name another directory; or, if that job has ended: {remove}"
    elif state is ClaimState.HIDDEN:
        hint = (
            f"This ResourceManager does not show jobs of others. Ask {claim.user}; if the job has"
            f" ended: {remove}"
        )
    else:
        message += "; its submit is under way"
        hint = (
            "Name another directory, or submit again when that job has ended. If its submit was"
            f" killed, the claim ends {duration(UNDER_WAY_LIMIT_S)} after it was made, or by:"
            f" {remove}"
        )
    return PathTaken(message, hint=hint, spec_key=file.target.spec_key)


def _shown(at_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(within(at_s, MOST_SHOWN_AT_S)))
