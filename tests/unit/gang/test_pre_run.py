"""One process of the job is tried before its gang is acquired."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gang.play import Play, failing, job, of, only, rung, stopped
from yarnam.am.status_report import AmFacts, StatusFacts, job_status, progress
from yarnam.core.failures.process_failure import UNKNOWN
from yarnam.core.gang import Gang, describe
from yarnam.core.model.actions import (
    AskContainer,
    Finish,
    LaunchGang,
    ReleaseContainer,
    RequestPlan,
    StartTimer,
    StopTask,
)
from yarnam.core.model.events import ContainersMarked, PlanReady, ScaleRequested, TimerKind
from yarnam.core.model.ids import PRE_RUN_ROLE, AskId, TaskId
from yarnam.core.model.job_spec import (
    PRE_RUN_RETRIES,
    JobSpec,
    MoreMemorySpec,
    PreRunMode,
    PreRunSpec,
    RetrySpec,
)
from yarnam.core.model.job_status import JobState, JobStatus, Phase, PreRunState
from yarnam.core.model.metrics import AgentMetrics
from yarnam.core.model.outcomes import (
    ContainerEnd,
    ExitKind,
    FailureClass,
    ProcessExit,
    RetryAction,
)
from yarnam.core.model.plans import PlacementPlan
from yarnam.core.model.resources import Resources
from yarnam.errors import Blame, ExitCode
from yarnam.wire.records import JobRecord


def tried(spec: JobSpec | None = None) -> JobSpec:
    due = PreRunSpec(PreRunMode.ALWAYS, time_limit_s=40.0, is_due=True)
    return replace(spec or job(), pre_run=due)


class PreRunPlay(Play):
    """A job whose pre-run is due."""

    def __init__(self, spec: JobSpec | None = None) -> None:
        super().__init__(tried(spec))

    def plan_pre_run(self) -> PreRunPlay:
        plan = PlacementPlan((rung(self.spec.as_pre_run()),))
        self.send(PlanReady(0, self.gang.attempt, plan))
        return self

    def to_pre_run(self) -> PreRunPlay:
        self.start()
        self.plan_pre_run().grant_all().register_all()
        self.start_all()
        return self

    @property
    def ask(self) -> AskId:
        [ask] = self.asks()
        return ask

    def again(self, on: str = "n1") -> PreRunPlay:
        """From BACKING_OFF to the next pre-run."""
        self.jitter(0.5)
        self.fire(TimerKind.BACKOFF)
        self.plan_pre_run().grant_all((on,)).register_all()
        self.start_all()
        return self


def with_action(action: RetryAction, failure: FailureClass = FailureClass.UNKNOWN) -> ProcessExit:
    finding = replace(UNKNOWN, rule="r", failure=failure, action=action, blame=Blame.USER)
    return replace(failing(), finding=finding)


def test_one_process_of_the_leading_role_is_asked_for_and_nothing_else() -> None:
    play = PreRunPlay(job(workers=4, processes=4, ps=1, chief=1))
    assert only(play.start(), RequestPlan).is_pre_run
    play.plan_pre_run()
    [ask] = of(play.all, AskContainer)
    assert ask.target.role == PRE_RUN_ROLE
    assert ask.target.resources == Resources(256, 1, 1), "a fourth of the chief's"
    play.grant_all().register_all()
    [member] = of(play.all, LaunchGang)[0].members
    assert member.task == TaskId(PRE_RUN_ROLE, 0)
    assert describe(play.gang, play.now_s).state is JobState.PRE_RUN


def test_a_process_that_ends_well_leads_to_the_gang() -> None:
    play = PreRunPlay().to_pre_run().after(12.0)
    ask = play.ask
    measured = ProcessExit(0, ExitKind.OK, step_s=0.25, peak_memory_mib=700)
    actions = play.exited(ask, measured)
    assert only(actions, ReleaseContainer).ask == ask
    request = only(actions, RequestPlan)
    assert not request.is_pre_run
    assert TimerKind.WAIT in {a.timer.kind for a in of(actions, StartTimer)}
    status = play.gang.pre_run
    assert status is not None
    assert (status.state, status.step_s, status.peak_memory_mib) == (PreRunState.PASSED, 0.25, 700)
    assert status.words == "passed: a step takes 0.25 s, at most 700 MiB of memory"
    assert play.gang.size == 2
    play.plan()
    play.grant_all().register_all()
    play.start_all()
    assert describe(play.gang, play.now_s).state is JobState.RUNNING
    assert [record.is_pre_run for record in play.gang.history] == [True, False]


def test_a_process_that_survives_the_time_limit_has_passed() -> None:
    play = PreRunPlay().to_pre_run()
    status = describe(play.gang, play.now_s)
    assert status.reason == "pre-run: 1 task runs, 40 s left"
    assert only(play.fire(TimerKind.PRE_RUN), StopTask).ask == play.ask
    play.exited(play.ask, replace(stopped(), peak_memory_mib=90))
    assert play.gang.pre_run is not None
    assert play.gang.pre_run.words == "passed: at most 90 MiB of memory"
    assert play.gang.phase is Phase.PENDING


@pytest.mark.parametrize(
    "action", [RetryAction.NEVER, RetryAction.ALLOWED, RetryAction.MORE_MEMORY]
)
def test_a_failure_of_the_program_ends_the_job_before_anything_is_held(action: RetryAction) -> None:
    play = PreRunPlay(job(retry=RetrySpec(on_user_failure=5))).to_pre_run()
    actions = play.exited(play.ask, with_action(action, FailureClass.IMPORT_ERROR))
    verdict = only(actions, Finish).verdict
    assert verdict.exit_code == ExitCode.USER_FAILED
    assert verdict.message.startswith("the pre-run failed: pre-run-0 (rank 0) on n1 exited")
    assert verdict.cause is not None
    assert verdict.cause.finding.failure is FailureClass.IMPORT_ERROR
    assert "Nothing of the gang was asked for" in verdict.hint
    assert [ask.target.role for ask in of(play.all, AskContainer)] == [PRE_RUN_ROLE]


def test_an_agent_that_blames_the_job_ends_it() -> None:
    play = PreRunPlay().to_pre_run()
    play.unable(play.ask, "the archive is damaged", is_user=True)
    assert play.verdict.exit_code == ExitCode.USER_FAILED
    assert play.verdict.message.startswith("the pre-run failed: ")


def lose_node(play: PreRunPlay) -> None:
    play.end(play.ask, ContainerEnd.LOST, "node lost")


def preempt(play: PreRunPlay) -> None:
    play.end(play.ask, ContainerEnd.PREEMPTED, "preempted")


def announce(play: PreRunPlay) -> None:
    play.send(ContainersMarked(0, (play.ask,)))
    play.exited(play.ask, stopped())


def fail_for_now(play: PreRunPlay) -> None:
    play.exited(play.ask, with_action(RetryAction.FREE))


def launch_late(play: PreRunPlay) -> None:
    play.exited(play.ask, with_action(RetryAction.ELSEWHERE))


@pytest.mark.parametrize("trouble", [lose_node, preempt, announce, fail_for_now, launch_late])
def test_what_is_not_the_jobs_own_fault_is_retried_for_free_and_then_given_up(
    trouble: object,
) -> None:
    assert callable(trouble)
    play = PreRunPlay(job(retry=RetrySpec(max_restarts=0))).to_pre_run()
    for number in range(1, PRE_RUN_RETRIES + 1):
        trouble(play)
        assert play.gang.phase is Phase.BACKING_OFF
        assert f"retry {number} of {PRE_RUN_RETRIES}" in play.gang.reason
        play.again(on=f"n{number + 1}")
    trouble(play)
    assert play.gang.phase is Phase.PENDING
    assert play.gang.pre_run is not None
    assert play.gang.pre_run.state is PreRunState.GIVEN_UP
    counts = (
        play.gang.retries.restarts,
        play.gang.retries.preemptions,
        play.gang.acquisition.failures,
        play.gang.retries.stuck,
    )
    assert counts == (0, 0, 0, 0), "the gang has all of its own retries"
    assert not of(list(play.all), RequestPlan)[-1].is_pre_run


def test_out_of_memory_lets_the_gang_begin_with_larger_containers_where_it_may() -> None:
    play = PreRunPlay(job(retry=RetrySpec(more_memory=MoreMemorySpec()))).to_pre_run()
    actions = play.exited(play.ask, with_action(RetryAction.MORE_MEMORY))
    request = only(actions, RequestPlan)
    assert (request.is_pre_run, request.memory_level) == (False, 1)
    assert play.gang.pre_run is not None
    assert play.gang.pre_run.needs_memory


def test_a_new_applicationmaster_begins_the_pre_run_anew() -> None:
    play = PreRunPlay().to_pre_run()
    play.restart_am()
    assert play.gang.phase is Phase.BACKING_OFF
    assert play.gang.is_pre_run
    play.again()
    play.ok(play.ask)
    play.restart_am()
    assert play.gang.phase is Phase.PENDING
    assert not play.gang.is_pre_run, "it is not done twice"


def test_a_cancelled_pre_run_is_a_cancelled_job() -> None:
    play = PreRunPlay().to_pre_run()
    play.cancel()
    play.exited(play.ask, stopped())
    assert play.verdict.exit_code == ExitCode.CANCELLED


def test_a_size_that_is_asked_for_meanwhile_is_the_gangs() -> None:
    from tests.unit.gang.elastic_play import elastic_job

    play = PreRunPlay(elastic_job()).to_pre_run()
    play.send(ScaleRequested(0, "ann", 3))
    assert play.gang.phase is Phase.RUNNING
    actions = play.ok(play.ask)
    assert only(actions, RequestPlan).most_tasks == 3


def test_the_limits_of_the_gang_are_its_own_again() -> None:
    play = PreRunPlay().to_pre_run()
    play.ok(play.ask)
    play.after(5.0).plan()
    play.grant_all().register_all()
    play.start_all().after(700.0)
    first, second = play.asks()
    play.end(first, ContainerEnd.LOST, "node lost")
    play.exited(second, stopped(0), stopped(1))
    assert play.gang.phase is Phase.REPLACING
    assert play.gang.retries.restarts == 1


def test_a_pre_run_and_its_steps_are_not_the_jobs() -> None:
    """Neither while it runs nor afterwards, when its last report is still there."""
    play = PreRunPlay().to_pre_run()
    reports = [AgentMetrics(play.ask, 0, 5.0, 40, 40, (("loss", 0.5),), attempt=1)]

    def shown(gang: Gang) -> JobStatus:
        record = JobRecord(play.spec, (), "/jobs/1", 0.0, "0")
        return job_status(StatusFacts(gang, record, AmFacts("app", 1), 9.0, metrics=reports))

    assert (shown(play.gang).state, shown(play.gang).step) == (JobState.PRE_RUN, None)
    assert (shown(play.gang).loss, progress(shown(play.gang))) == (None, None)
    play.exited(play.ask, ProcessExit(0, ExitKind.OK))
    play.plan()
    play.grant_all()
    assert not play.gang.is_pre_run
    assert shown(play.gang).step is None
    assert shown(play.gang).max_attempts == play.gang.retries.max_attempts
    assert shown(play.gang).attempt_words == f"2 (1 of {play.gang.retries.max_attempts} that count)"
