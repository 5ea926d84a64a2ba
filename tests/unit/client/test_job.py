"""The handle on a job: which source tells its status, how it ends, what a kill does."""

from __future__ import annotations

import gc
import weakref
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from hdfs_utils import TimeLimits
from hdfs_utils.backends.webhdfs import WebHdfsFileSystem
from hdfs_utils.config.delegation_tokens import from_url
from hdfs_utils.errors import NotAuthenticated
from hdfs_utils.journal.log import AppendLog
from hdfs_utils.protocols import gssapi
from tests.unit.adapters.test_job_tokens import Web
from tests.unit.client.world import APPLICATION, World, job_spec, status, verdict
from tests.unit.gang.play import rung
from yarnam.adapters.job_tokens import TokenSource
from yarnam.cli.rendering.status_text import headline
from yarnam.client.monitor.job_end import error_of
from yarnam.client.user_paths import tag_of
from yarnam.core.model.events import CancelRequested, Event, JobStarted, PlanReady
from yarnam.core.model.job_spec import StoringSpec
from yarnam.core.model.job_status import JobState
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.core.model.plans import PlacementPlan
from yarnam.errors import (
    BadConfig,
    Cancelled,
    ExitCode,
    GangTimeout,
    NoPermission,
    Unavailable,
    UsageError,
    UserFailed,
    WireMismatch,
    YarnamError,
)
from yarnam.wire.codec import decode, encode, encode_event
from yarnam.wire.protocol import JOURNAL_DIRECTORY
from yarnam.wire.records import AmRecord


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


KEY = "20261121-000000-abcdef"


# ---- status ------------------------------------------------------------------------------------


def test_the_living_am_is_asked_first(world: World) -> None:
    world.put(KEY, "status.json", encode(status(JobState.ACQUIRING)))
    world.line.statuses = [status(JobState.RUNNING, step=7)]
    found = world.job(key=KEY).status()
    assert (found.state, found.step) == (JobState.RUNNING, 7)


def test_a_job_that_is_over_keeps_no_connection(world: World) -> None:
    job = world.job(key=KEY)
    world.line.statuses = [status(JobState.RUNNING)]
    job.status()
    assert not world.line.closed
    world.rm.add(APPLICATION, state="FINISHED", final_status="SUCCEEDED", tags=(tag_of(KEY),))
    world.put(KEY, "verdict.json", encode(verdict()))
    job.status()
    assert world.line.closed


def test_a_client_does_not_keep_the_jobs_that_its_caller_has_forgotten(world: World) -> None:
    job = weakref.ref(world.job(key=KEY))
    gc.collect()
    assert job() is None


def test_before_the_am_yarn_says_why_the_job_waits(world: World) -> None:
    job = world.job(state="ACCEPTED", am=False, diagnostics="Queue's AM resource\nlimit exceeded.")
    found = job.status()
    assert found.state is JobState.QUEUED
    assert found.reason == "Queue's AM resource limit exceeded."
    assert (found.name, found.queue) == ("hello", "root.dl")


def test_a_failed_job_stays_failed_while_yarn_starts_another_am(world: World) -> None:
    """That one obeys the verdict; the job does not wait in a queue meanwhile."""
    job = world.job(state="ACCEPTED", key=KEY)
    world.put(KEY, "status.json", encode(status(JobState.FAILED, verdict=verdict())))
    assert job.status().state is JobState.FAILED


def test_an_am_that_has_not_announced_itself_is_starting(world: World) -> None:
    found = world.job(am=False).status()
    assert found.state is JobState.QUEUED
    assert "starting" in found.reason


def test_a_silent_am_leaves_its_last_word(world: World) -> None:
    job = world.job(key=KEY)
    world.put(KEY, "status.json", encode(status(JobState.RUNNING, step=3)))
    world.line.failure = Unavailable("no answer from n1:4711")
    found = job.status()
    assert (found.state, found.step) == (JobState.RUNNING, 3)
    assert "does not answer" in found.reason
    assert world.line.closed


def journaled(world: World, *events: Event) -> None:
    log = AppendLog.open(world.files, f"{world.directory(KEY)}/{JOURNAL_DIRECTORY}", 1)
    log.append([encode_event(event) for event in events])


def acquiring(world: World) -> None:
    """The journal of a gang that has asked for its containers."""
    answer = PlacementPlan((rung(job_spec()),))
    journaled(world, JobStarted(at_s=1001.0), PlanReady(1002.0, 1, answer))


@pytest.mark.parametrize("state", ["RUNNING", "ACCEPTED"])
def test_a_silent_am_without_a_status_on_hdfs_left_a_journal(world: World, state: str) -> None:
    """Also between two AMs, when YARN has the application ACCEPTED again."""
    job = world.job(state=state, key=KEY)
    acquiring(world)
    world.line.failure = Unavailable("no answer from n1:4711: no reply in time")
    found = job.status()
    assert (found.state, found.is_last_known, found.at_s) == (JobState.ACQUIRING, True, 1002.0)
    line = "".join(str(part) for part in headline(found, now_s=1132.0))
    assert "as of 2m10s ago" in line
    assert "ApplicationMaster" in line


def test_the_last_reply_of_a_silent_am_is_newer_than_its_journal(world: World) -> None:
    job = world.job(key=KEY)
    acquiring(world)
    world.line.statuses = [status(JobState.RUNNING, step=7, at_s=2000.0)]
    assert not job.status().is_last_known
    world.line.failure = Unavailable("no answer from n1:4711: no reply in time")
    found = job.status()
    assert (found.state, found.step, found.at_s) == (JobState.RUNNING, 7, 2000.0)
    assert found.is_last_known


def test_a_silent_am_that_left_nothing_is_what_yarn_reports(world: World) -> None:
    job = world.job(key=KEY, running_containers=3)
    world.line.failure = Unavailable("no answer from n1:4711: no reply in time")
    assert job.status().state is JobState.RUNNING


def test_an_outage_shows_the_age_of_what_was_seen_before_it(world: World) -> None:
    job = world.job(key=KEY)
    world.line.statuses = [status(JobState.RUNNING, step=7, at_s=2000.0)]
    follower = job.follower()
    assert follower.poll(0.0).is_new
    world.rm.failure = Unavailable("no answer from the ResourceManager")
    poll = follower.poll(0.0)
    assert poll.status is not None
    assert (poll.status.state, poll.status.at_s) == (JobState.RUNNING, 2000.0)
    assert (poll.status.is_last_known, poll.is_new) == (True, True)
    assert not follower.poll(0.0).is_new


def test_a_new_am_attempt_gets_a_new_line(world: World) -> None:
    job = world.job(key=KEY)
    job.status()
    job.status()
    assert len(world.lines) == 1
    world.put(KEY, "am.json", encode(AmRecord(APPLICATION, 2, "n1", 4711)))
    job.status()
    assert len(world.lines) == 2


def test_after_the_end_the_verdict_decides_whatever_yarn_says(world: World) -> None:
    """A FAILED verdict ends as YARN's SUCCEEDED where that keeps YARN from trying again."""
    job = world.job(state="FINISHED", final_status="SUCCEEDED", key=KEY)
    world.put(KEY, "status.json", encode(status(JobState.RUNNING, step=9)))
    world.put(KEY, "verdict.json", encode(verdict(VerdictKind.FAILED, 90, "exit code 3")))
    found = job.status()
    assert found.state is JobState.FAILED
    assert found.step == 9
    assert found.verdict is not None
    assert found.verdict.exit_code == ExitCode.USER_FAILED
    assert world.lines == []


@pytest.mark.parametrize(
    ("state", "final", "kind", "code"),
    [
        ("KILLED", "KILLED", VerdictKind.CANCELLED, ExitCode.CANCELLED),
        ("FINISHED", "KILLED", VerdictKind.CANCELLED, ExitCode.CANCELLED),
        ("FAILED", "FAILED", VerdictKind.FAILED, ExitCode.ATTEMPTS_EXHAUSTED),
        ("FINISHED", "FAILED", VerdictKind.FAILED, ExitCode.ATTEMPTS_EXHAUSTED),
        ("FINISHED", "SUCCEEDED", VerdictKind.FAILED, ExitCode.INTERNAL),
    ],
)
def test_without_a_verdict_yarns_end_is_read(
    world: World, state: str, final: str, kind: VerdictKind, code: ExitCode
) -> None:
    job = world.job(state=state, final_status=final, diagnostics="AM exited with 137")
    found = job.wait()
    assert (found.kind, found.exit_code) == (kind, code)
    if code != ExitCode.INTERNAL:
        assert "AM exited with 137" in found.message


def test_a_record_of_another_version_is_a_wire_mismatch(world: World) -> None:
    job = world.job(state="FINISHED", key=KEY)
    world.put(KEY, "verdict.json", b'{"kind":"PERHAPS"}')
    with pytest.raises(WireMismatch):
        job.status()


def test_an_application_that_is_nobodys(world: World) -> None:
    with pytest.raises(UsageError, match="does not exist on this cluster"):
        world.client.job(APPLICATION).status()
    world.rm.add(APPLICATION, tags=("spark",))
    with pytest.raises(UsageError, match="not a yarnam job"):
        world.client.job(APPLICATION).status()


# ---- following ---------------------------------------------------------------------------------


def test_watch_tells_each_change_once_and_ends_with_the_verdict(world: World) -> None:
    job = world.job(key=KEY)
    steps = [status(step=number, at_s=float(number)) for number in (1, 2, 2, 3)]
    last = status(JobState.SUCCEEDED, verdict=verdict())
    world.line.statuses = [status(JobState.ACQUIRING), *steps, last]

    def end(_: object) -> None:
        if world.line._next == len(world.line.statuses):
            world.rm.change(APPLICATION, state="FINISHED", final_status="SUCCEEDED")

    world.rm.on_look = end
    seen = list(job.watch())
    assert [one.step for one in seen] == [None, 1, 2, 3, None]
    assert seen[-1].verdict == verdict()
    assert world.rm.apps[APPLICATION].is_over


def test_wait_names_the_state_when_its_time_is_over(world: World) -> None:
    job = world.job(state="ACCEPTED", am=False, diagnostics="the queue is full")
    with pytest.raises(Unavailable, match=r"has not ended after 0\.05 s: QUEUED the queue is full"):
        job.wait(timeout_s=0.05)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ExitCode.USER_FAILED, UserFailed),
        (ExitCode.GANG_TIMEOUT, GangTimeout),
        (ExitCode.CANCELLED, Cancelled),
    ],
)
def test_wait_raises_the_verdicts_error_on_demand(
    world: World, code: ExitCode, kind: type[Exception]
) -> None:
    job = world.job(state="FINISHED", key=KEY)
    content = Verdict(VerdictKind.FAILED, int(code), "it went wrong", "do that")
    world.put(KEY, "verdict.json", encode(content))
    assert job.wait() == content
    with pytest.raises(kind, match="it went wrong\n  do that"):
        job.wait(raise_on_failure=True)


def test_success_is_no_error(world: World) -> None:
    assert error_of(verdict()) is None
    job = world.job(state="FINISHED", key=KEY)
    world.put(KEY, "verdict.json", encode(verdict()))
    assert job.wait(raise_on_failure=True).exit_code == 0


# ---- story -------------------------------------------------------------------------------------

STORY = [JobStarted(1.0), CancelRequested(2.0, "me")]


def test_events_come_from_the_am_while_it_lives(world: World) -> None:
    world.line.journal = list(STORY)
    assert world.job().events() == STORY


def test_events_come_from_the_journal_afterwards(world: World) -> None:
    job = world.job(state="FINISHED", key=KEY)
    assert job.events() == []
    folder = f"/user/me/.yarnam/jobs/{KEY}/journal"
    with AppendLog.open(world.files, folder) as log:
        log.append([encode_event(event) for event in STORY])
    assert job.events() == STORY


# ---- kill --------------------------------------------------------------------------------------


def test_kill_lets_the_am_end_the_job(world: World) -> None:
    job = world.job(key=KEY)
    ended = verdict(VerdictKind.CANCELLED, 93, "cancelled by me")

    def end() -> None:
        world.put(KEY, "verdict.json", encode(ended))
        world.rm.change(APPLICATION, state="FINISHED", final_status="KILLED")

    world.line.on_cancel = end
    found = job.kill("wrong data")
    assert world.line.cancelled == [("me", "wrong data")]
    assert world.rm.killed == []
    assert (found.state, found.verdict) == (JobState.CANCELLED, ended)


@pytest.mark.parametrize("state", ["NEW", "SUBMITTED", "ACCEPTED", "RUNNING"])
def test_kill_without_an_am_goes_through_yarn(world: World, state: str) -> None:
    job = world.job(state=state, am=False, key=KEY)
    world.files.write_bytes(f"/user/me/.skein/{APPLICATION}/skein.jar", b"x")
    found = job.kill("not needed")
    assert world.rm.killed == [APPLICATION]
    assert found.state is JobState.CANCELLED
    content = decode(world.files.read_bytes(f"/user/me/.yarnam/jobs/{KEY}/verdict.json"), Verdict)
    assert content.exit_code == ExitCode.CANCELLED
    assert content.message == "killed by me: not needed"
    assert not world.files.exists(f"/user/me/.skein/{APPLICATION}")


def test_kill_of_a_hung_am_goes_through_yarn(world: World) -> None:
    job = world.job(key=KEY)
    world.line.failure = Unavailable("no answer")
    assert job.kill().state is JobState.CANCELLED
    assert world.rm.killed == [APPLICATION]


def test_an_am_that_promises_and_does_nothing_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    world = World(tmp_path, cancel_patience_s=0.05)
    job = world.job(key=KEY)
    world.put(
        KEY,
        "job.json",
        encode(replace(job.record(), job=_impatient())),
    )
    fresh = world.client.job(APPLICATION)
    assert fresh.kill(timeout_s=5).state is JobState.CANCELLED
    assert world.line.cancelled
    assert world.rm.killed == [APPLICATION]


def _impatient():  # type: ignore[no-untyped-def]
    spec = job_spec()
    return replace(spec, am=replace(spec.am, stop_grace_s=0.0))


def test_the_ams_own_verdict_is_never_overwritten(world: World) -> None:
    job = world.job(am=False, key=KEY)
    world.put(KEY, "verdict.json", encode(verdict(message="done in time")))
    assert job.kill().state is JobState.SUCCEEDED


@pytest.mark.parametrize("keep", [False, True])
def test_a_kill_without_an_am_settles_what_the_tasks_wrote(world: World, keep: bool) -> None:
    job = world.job(state="ACCEPTED", am=False, key=KEY)
    spec = replace(job.record().job, output="/o/out", storing=StoringSpec(keep_on_failure=keep))
    record = replace(job.record(), job=spec)
    world.put(KEY, "job.json", encode(record))
    world.files.write_bytes(f"/o/.out.{job.id}/attempt-1/worker-0/x", b"1")
    world.client.job(job.id).kill()
    left = [status.path for status in world.files.walk("/o") if not status.is_dir]
    kept = f"/o/out.partial.{job.id}/attempt-1/worker-0/x"
    assert left == ([kept] if keep else [])


def test_killing_a_job_that_is_over_changes_nothing(world: World) -> None:
    job = world.job(state="FINISHED", key=KEY)
    world.put(KEY, "verdict.json", encode(verdict()))
    before = world.left_on_hdfs()
    assert job.kill().state is JobState.SUCCEEDED
    assert world.rm.killed == []
    assert world.left_on_hdfs() == before


def test_a_kill_that_yarn_does_not_carry_out_says_so(world: World) -> None:
    world.rm.kill_takes = False
    job = world.job(am=False, key=KEY)
    with pytest.raises(Unavailable, match="still reports it after"):
        job.kill(timeout_s=0.1)


@pytest.mark.parametrize(
    ("user", "state", "is_left"),
    [("me", "KILLED", False), ("me", "FAILED", False), ("me", "RUNNING", True),
     ("you", "KILLED", True)],
)  # fmt: skip
def test_what_a_killed_am_left_goes_when_anybody_asks_for_the_job(
    world: World, user: str, state: str, is_left: bool
) -> None:
    """Skein's directory has the values of secret variables."""
    job = world.job(key=KEY, state=state, user=user)
    left = world.site.paths_of(user).skein_staging(APPLICATION)
    world.files.write_bytes(f"{left}/secrets.json", b"{}")
    with suppress(YarnamError):
        job.status()
    assert world.files.exists(left) is is_left


def test_an_interrupt_goes_to_the_am_in_the_users_name(world: World) -> None:
    job = world.job()
    job.interrupt()
    assert world.line.interrupted == ["me"]


def test_what_has_no_am_cannot_be_interrupted(world: World) -> None:
    with pytest.raises(Unavailable, match="no ApplicationMaster"):
        world.job(am=False, state="ACCEPTED").interrupt()


def test_what_has_ended_cannot_be_interrupted(world: World) -> None:
    with pytest.raises(UsageError, match="has ended"):
        world.job(state="FINISHED", final_status="SUCCEEDED").interrupt()


def token_source(world: World) -> TokenSource:
    files = WebHdfsFileSystem(Web(), "hdfs://10.0.0.1:8020", TimeLimits())
    rm_token = world.rm.delegation_token
    return TokenSource(lambda _: files, rm_token, (files.uri,), "rm1:8032", "yarn")


def test_new_tokens_go_to_the_am(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gssapi, "identity", lambda: gssapi.Identity("alice@SITE", 3600))
    world.rm.tokens_end_s = 1.6e9
    world.client.site.open_token_source = lambda: token_source(world)
    assert world.job().refresh_tokens() == 1.6e9
    found = {from_url(text).kind: from_url(text) for text in world.line.tokens}
    assert found["HDFS_DELEGATION_TOKEN"].service == "10.0.0.1:8020"
    assert found["RM_DELEGATION_TOKEN"].identifier == b"alice@SITE"


def test_somebody_elses_job_gets_no_tokens(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could do with them all that who refreshes them may."""
    monkeypatch.setattr(gssapi, "identity", lambda: gssapi.Identity("alice@SITE", 3600))
    world.client.site.open_token_source = lambda: token_source(world)
    job = world.job()
    world.rm.change(APPLICATION, user="mallory")
    with pytest.raises(NoPermission, match="mallory's job"):
        job.refresh_tokens()
    assert world.line.tokens == []


def test_a_site_without_kerberos_has_no_tokens(world: World) -> None:
    with pytest.raises(BadConfig, match="no delegation tokens"):
        world.job().refresh_tokens()


def test_who_has_no_ticket_gets_no_tokens(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_ticket() -> gssapi.Identity:
        raise NotAuthenticated("Ticket expired; run kinit")

    monkeypatch.setattr(gssapi, "identity", no_ticket)
    world.client.site.open_token_source = lambda: token_source(world)
    with pytest.raises(NoPermission, match="run kinit"):
        world.job().refresh_tokens()
    assert world.line.tokens == []
