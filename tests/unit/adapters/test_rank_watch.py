"""What the AM sees of one process over time."""

from __future__ import annotations

from yarnam.adapters.grpc.rank_watch import LEAST_STEPS, RankWatch
from yarnam.core.model.ids import AskId
from yarnam.wire.pb import yarnam_pb2 as pb

ASK = AskId(1, "worker", 0)


def report(step: int | None = None, pause: str = "", **fields: object) -> pb.ProcessReport:
    made = pb.ProcessReport(rank=2, **fields)  # type: ignore[arg-type]
    made.metrics.pause = pause
    if step is not None:
        made.metrics.step = step
    return made


def test_the_median_step_counts_from_the_second_on() -> None:
    watch = RankWatch(ASK, 2, 0.0)
    watch.see(report(1), 90.0)  # compiled first
    for number in range(LEAST_STEPS):
        assert watch.activity(91.0).step_s is None
        watch.see(report(2 + number), 92.0 + 2.0 * number)
    seen = watch.activity(106.0)
    assert (seen.step, seen.step_s, seen.step_age_s) == (4, 2.0, 10.0)


def test_short_steps_are_known_by_few_reports() -> None:
    watch = RankWatch(ASK, 2, 0.0)
    watch.see(report(1), 1.0)
    watch.see(report(11), 2.0)
    assert watch.activity(2.0).step_s == 0.1


def test_pauses_are_no_steps() -> None:
    watch = RankWatch(ASK, 2, 0.0)
    watch.see(report(1), 1.0)
    watch.see(report(11), 2.0)
    watch.see(report(11, pause="evaluation"), 2.1)
    assert watch.activity(30.0).pause == "evaluation"
    watch.see(report(11), 60.0)
    watch.see(report(12), 61.0)
    assert watch.activity(61.0).step_s == 0.1
    assert watch.activity(61.0).pause == ""


def test_idle_time_goes_on_by_the_clock_here() -> None:
    watch = RankWatch(ASK, 2, 0.0)
    watch.see(report(idle_s=6.0), 100.0)
    watch.see(report(idle_s=9.0), 104.0)
    assert watch.activity(114.0).idle_s == 20.0
    watch.see(report(stopped=True), 115.0)
    seen = watch.activity(116.0)
    assert (seen.idle_s, seen.is_stopped, seen.stack) == (0.0, True, None)
    watch.see(report(dumped=True, stack=["f"]), 117.0)
    assert watch.activity(117.0).stack == ("f",)


def test_steps_that_all_have_a_pause_are_steps_of_no_usual_length() -> None:
    watch = RankWatch(ASK, 2, 0.0)
    for step in range(1, LEAST_STEPS + 2):
        assert not watch.activity(step).has_stepped
        watch.see(report(step, pause="checkpoint"), float(step))
    seen = watch.activity(60.0)
    assert (seen.has_stepped, seen.step_s) == (True, None)


def test_a_step_counts_from_when_it_was_made_not_from_when_it_was_told() -> None:
    """A process writes the steps that it does not send; the agent looks for them every 2 s."""
    watch = RankWatch(ASK, 2, 0.0)
    watch.see(report(1), 1.0)
    late = report(11)
    late.metrics.age_s = 2.5
    watch.see(late, 8.5)
    seen = watch.activity(9.0)
    assert (seen.step_s, seen.step_age_s) == (0.5, 3.0)


def test_an_age_beyond_the_step_before_is_the_clock_of_a_node_that_was_set() -> None:
    watch = RankWatch(ASK, 2, 0.0)
    watch.see(report(1), 5.0)
    for step, age_s in ((2, 3600.0), (3, float("nan")), (4, -7.0)):
        late = report(step)
        late.metrics.age_s = age_s
        watch.see(late, 4.0 + step)
    assert watch.activity(8.0).step_age_s == 0.0
    assert watch.activity(8.0).step_s == 1.0


def test_what_a_living_process_has_raised_counts_until_it_goes_on() -> None:
    watch = RankWatch(ASK, 2, 0.0)
    told = report(dumped=True, raised_age_s=4.0)
    told.finding.rule, told.finding.failure, told.finding.role = "r", "import-error", "root"
    told.finding.action, told.finding.blame = "never", "user"
    watch.see(told, 100.0)
    seen = watch.activity(110.0)
    assert seen.raised is not None
    assert (seen.raised.failure.value, seen.raised_age_s) == ("import-error", 14.0)
    watch.see(report(7), 111.0)
    assert watch.activity(111.0).raised is None
