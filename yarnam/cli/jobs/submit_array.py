"""``yarnam submit --array``: shows the members as they are submitted, and as they end."""

from __future__ import annotations

from concurrent.futures import CancelledError

from yarnam.cli.rendering.console import print_json, print_line, print_note
from yarnam.client import Job, JobArray
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.errors import YarnamError


def follow_array(array: JobArray, *, watch: bool, as_json: bool) -> int:
    """The exit code. An interrupt ends the submitting: what is submitted continues."""
    print_note(f"Array {array.id}: {len(array.futures)} jobs")
    try:
        jobs, error = _submitted(array, as_json=as_json)
    except BaseException:
        array.stop()
        print_note(f"Stopped submitting. To cancel the array: yarnam kill --array {array.id}")
        raise
    if error is not None:
        print_note(f"{len(jobs)} of {len(array.futures)} jobs are submitted")
        raise error
    verdicts = [(job, _ended(job, as_json=as_json)) for job in jobs] if watch else []
    if as_json:
        ended = {job.id: verdict.exit_code for job, verdict in verdicts}
        rows = [{"application": job.id, "directory": job.directory} for job in jobs]
        extra = {"exit_codes": ended} if watch else {}
        print_json({"array": array.id, "jobs": rows, **extra})
    elif not watch:
        print_note(f"To list them: yarnam ps --array {array.id}")
    failed = (verdict for _, verdict in verdicts if verdict.kind is not VerdictKind.SUCCEEDED)
    return next((verdict.exit_code for verdict in failed), 0)


def _submitted(array: JobArray, *, as_json: bool) -> tuple[list[Job], YarnamError | None]:
    """All that are submitted, and the first error."""
    jobs: list[Job] = []
    first: YarnamError | None = None
    for future in array.futures:
        try:
            job = future.result()
        except YarnamError as error:
            first = first or error
            continue
        except CancelledError:
            continue
        jobs.append(job)
        if not as_json:
            print_line(job.id)
    return jobs, first


def _ended(job: Job, *, as_json: bool) -> Verdict:
    verdict = job.wait()
    if not as_json:
        print_note(f"{job.id}: {verdict.kind.value}: {verdict.message}")
    return verdict
