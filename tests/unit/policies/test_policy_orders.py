"""What each policy decides on a few jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.policies.policy_worlds import run_by, running, schedule, suspended, view, waiting
from yarnam.core.admission.decision import admit
from yarnam.core.admission.wait_queue import wait_queue
from yarnam.core.model.tickets import Admitted, PolicyTicket
from yarnam.core.policies.gpu_nodes import NodeCapacity
from yarnam.core.policies.policy_registry import NAMES, decide, policy_named
from yarnam.core.policies.policy_settings import read_settings
from yarnam.core.policies.schedule import Act, Schedule
from yarnam.core.policies.scheduling_view import GpuCount, SchedulingView
from yarnam.core.policies.shipped.smallest_first import contention


def test_fifo_lets_nobody_pass_unless_it_skips() -> None:
    tickets = [running("r1", 6), waiting("a2", 4, 1.0), waiting("b3", 1, 2.0)]
    assert run_by(schedule("fifo", tickets, 8)) == {"r1"}
    assert run_by(schedule("fifo", tickets, 8, skip="1")) == {"r1", "b3"}
    row = schedule("fifo", tickets, 8).of("b3")
    assert (row.act, row.rank) == (Act.WAIT, 3)
    assert "a2 (4 GPUs) came first" in row.why


def test_backfill_starts_what_does_not_delay_the_first() -> None:
    tickets = [
        running("r1", 6, remaining_s=100.0),
        waiting("h2", 7, 1.0),
        waiting("s3", 1, 2.0, remaining_s=99.0),
        waiting("l4", 1, 3.0, remaining_s=1000.0),
        waiting("l5", 1, 4.0, remaining_s=1000.0),
    ]
    # The head leaves one GPU over at 100 s: l4 takes it, and l5 would delay the head.
    assert run_by(schedule("fifo-backfill", tickets, 9, 0.0)) == {"r1", "s3", "l4", "l5"}
    assert run_by(schedule("fifo-backfill", tickets, 8, 0.0)) == {"r1", "s3", "l4"}
    assert run_by(schedule("fifo-backfill", tickets[:1] + tickets[1:3] + tickets[4:], 7)) == {
        "r1", "s3",
    }  # fmt: skip


def test_backfill_by_the_shortest_estimate() -> None:
    tickets = [
        running("r1", 7, remaining_s=100.0),
        waiting("h2", 8, 1.0),
        waiting("l3", 1, 2.0, remaining_s=90.0),
        waiting("s4", 1, 3.0, remaining_s=10.0),
    ]
    assert run_by(schedule("fifo-backfill", tickets, 8)) == {"r1", "l3"}
    assert run_by(schedule("fifo-backfill", tickets, 8, shortest_first="1")) == {"r1", "s4"}


def test_backfill_with_unknown_run_times_only_uses_what_the_head_leaves() -> None:
    tickets = [running("r1", 7), waiting("h2", 8, 1.0), waiting("l3", 1, 2.0)]
    assert run_by(schedule("fifo-backfill", tickets, 8)) == {"r1"}


def test_the_shortest_remaining_time_suspends_longer_ones() -> None:
    tickets = [running("r1", 8, remaining_s=100.0), waiting("s2", 1, 5.0, remaining_s=10.0)]
    found = schedule("srtf", tickets, 8, 10.0)
    assert [row.act for row in found.decisions()] == [Act.RUN, Act.YIELD]
    assert found.of("s2").why == "remaining: 10 s, for 1 GPU; the least first"
    # It cannot be suspended, or has not run for long enough yet.
    assert run_by(schedule("srtf", [running("r1", 8, can_suspend=False), tickets[1]], 8)) == {"r1"}
    early = schedule("srtf", tickets, 8, 10.0, least_run="30")
    assert run_by(early) == {"r1"}
    assert early.next_change_s == 30.0


def test_remaining_service_counts_gpus() -> None:
    tickets = [waiting("w1", 4, remaining_s=10.0), waiting("n2", 1, remaining_s=30.0)]
    assert schedule("srtf", tickets, 4).order[0].job == "w1"
    assert schedule("srsf", tickets, 4).order[0].job == "n2"


def test_a_job_that_tells_nothing_comes_last() -> None:
    tickets = [waiting("u1", 1), waiting("k2", 1, 5.0, remaining_s=1e6)]
    assert [one.job for one in schedule("srtf", tickets, 1).order] == ["k2", "u1"]


def test_a_pause_has_a_least_length() -> None:
    tickets = [suspended("s1", 8, 10.0, since_s=90.0, remaining_s=1.0)]
    found = schedule("srtf", tickets, 8, 100.0, least_pause="60")
    assert not found.gpus
    assert found.next_change_s == 150.0
    assert run_by(schedule("srtf", tickets, 8, 150.0, least_pause="60")) == {"s1"}


def test_tiresias_demotes_by_gpus_times_seconds() -> None:
    long = running("l1", 4, 0.0)
    new = waiting("n2", 4, 500.0)
    before = schedule("tiresias", [long, new], 4, 800.0)
    assert run_by(before) == {"l1"}
    assert before.next_change_s == pytest.approx(3250 / 4)
    after = schedule("tiresias", [long, new], 4, 813.0)
    assert run_by(after) == {"n2"}
    assert after.of("l1").why == "queue 2 of 3: 4 GPUs, attained service 3252 GPU-s"


def test_tiresias_promotes_who_has_waited_long() -> None:
    starved = suspended("s1", 4, 2000.0, since_s=2000.0)
    new = waiting("n2", 4, 2000.0)
    assert run_by(schedule("tiresias", [starved, new], 4, 17_999.0)) == {"n2"}
    found = schedule("tiresias", [starved, new], 4, 18_000.0)
    assert found.promoted == {"s1"}
    assert run_by(found) == {"s1"}
    never = schedule("tiresias", [starved, new], 4, 1e9, promote="0")
    assert run_by(never) == {"n2"}


def test_gittins_prefers_who_most_likely_ends_soon() -> None:
    # Of those with 100 GPU-s or more, all but one end at 110; the others are far from any end.
    samples = ",".join(["110"] * 9 + ["3000"] + ["60"] * 2)
    near = suspended("n1", 1, 100.0, since_s=500.0)
    far = suspended("f2", 1, 120.0, since_s=500.0)
    found = schedule("gittins", [far, near], 1, 600.0, samples=samples)
    assert found.order[0].job == "n1"


def test_gandiva_shares_by_slices_and_starves_nobody() -> None:
    one, two = running("a1", 8, 0.0), waiting("b2", 8, 0.0)
    inside = schedule("gandiva", [one, two], 8, 59.0)
    assert run_by(inside) == {"a1"}
    assert inside.next_change_s == 60.0
    over = schedule("gandiva", [one, two], 8, 60.0)
    assert run_by(over) == {"b2"}
    assert over.of("a1").why == "its slice is over"


def test_a_slice_keeps_the_measured_cost_under_its_share() -> None:
    costly = running("a1", 8, 0.0, pause_cost_s=30.0)
    found = schedule("gandiva", [costly, waiting("b2", 8)], 8, 60.0)
    assert run_by(found) == {"a1"}
    assert found.next_change_s == pytest.approx(30.0 / 0.05)


def test_gandiva_gathers_gpus_for_a_large_gang() -> None:
    small = [running(f"s{number}", 1, float(number)) for number in range(8)]
    later = waiting("t9", 1, 20.0)
    large = waiting("g8", 8, 10.0)
    # Some slices are over: those jobs go on, and nobody behind the large gang starts.
    assert run_by(schedule("gandiva", [*small, large, later], 8, 63.0)) == {
        one.job for one in small
    }
    assert run_by(schedule("gandiva", [*small, large, later], 8, 67.0)) == {"g8"}


def test_gandiva_grows_elastic_gangs_into_idle_gpus_and_shrinks_them() -> None:
    elastic = running("e1", 2, least_gpus=2, most_gpus=6)
    assert schedule("gandiva", [elastic], 8, 1.0).gpus == {"e1": 6}
    grown = running("e1", 6, least_gpus=2, most_gpus=6)
    found = schedule("gandiva", [grown, waiting("n2", 4, 1.0)], 8, 2.0)
    assert found.gpus == {"e1": 4, "n2": 4}
    assert found.of("e1").act is Act.RESIZE


def elastic_job(job: str, gpus: int, steps: float, scale: float) -> PolicyTicket:
    rates = tuple((size, size**scale) for size in range(1, 9))
    return running(
        job, gpus, least_gpus=1, most_gpus=8, rates=rates, remaining_steps=steps, since_s=-1e4
    )


def test_optimus_gives_the_next_gpu_to_the_largest_gain() -> None:
    scales, flat = elastic_job("s1", 1, 1e6, 0.95), elastic_job("f2", 1, 1e6, 0.1)
    found = schedule("optimus", [scales, flat], 8, 0.0)
    assert sum(found.gpus.values()) == 8
    assert found.gpus["s1"] > 4 > found.gpus["f2"]


def test_optimus_keeps_a_size_that_is_new_or_not_worth_the_change() -> None:
    rates = tuple((size, float(size)) for size in range(1, 9))
    common = {"least_gpus": 1, "most_gpus": 8, "rates": rates}
    new = running("n1", 2, since_s=-10.0, remaining_steps=1e6, **common)
    assert schedule("optimus", [new], 8, 0.0).gpus == {"n1": 2}
    ending = running("e1", 2, since_s=-1e4, remaining_steps=2e4 + 10, pause_cost_s=60.0, **common)
    assert schedule("optimus", [ending], 8, 0.0).gpus == {"e1": 2}
    shrunk = schedule("optimus", [new, waiting("w2", 7, 1.0)], 8, 2.0)
    assert shrunk.gpus == {"n1": 1, "w2": 7}


def test_optimus_shrinks_a_gang_only_for_others() -> None:
    """Also one of which it is not known what it gains by its GPUs."""
    unknown = running("u1", 6, least_gpus=1, most_gpus=8, since_s=-1e4)
    assert schedule("optimus", [unknown], 8, 0.0).gpus == {"u1": 6}
    found = schedule("optimus", [unknown, waiting("w2", 4, 1.0)], 8, 2.0)
    assert found.gpus == {"u1": 4, "w2": 4}


def test_themis_serves_who_is_worst_off() -> None:
    fair = running("f1", 4, 0.0, remaining_s=1000.0)
    late = waiting("l2", 4, 0.0, remaining_s=10.0)
    assert run_by(schedule("themis", [fair, late], 4, 600.0)) == {"f1"}  # its lease
    found = schedule("themis", [fair, late], 4, 1200.0)
    assert run_by(found) == {"l2"}
    assert "61" in found.of("l2").why or "60" in found.of("l2").why


def test_smallest_first_decides_what_the_admission_decision_does() -> None:
    tickets = [
        running("r1", 5, 0.0, since_s=0.0, remaining_s=900.0),
        waiting("b2", 8, 10.0),
        waiting("s3", 1, 20.0, remaining_s=60.0),
        waiting("m4", 2, 30.0),
        waiting("m5", 3, 40.0),
    ]
    for now_s in (50.0, 400.0, 1000.0, 9000.0):
        seen = contention(view(tickets, 8, now_s), tickets[:1], tickets[1:])
        queue = wait_queue(seen.tickets[0], seen)
        found = schedule("smallest-first", tickets, 8, now_s)
        assert [one.job for one in found.order[1:]] == [one.job for one in queue.order]
        free = 3
        for ticket in queue.order:
            fits = ticket.gpus <= free
            is_admitted = isinstance(admit(ticket, seen, fits_now=fits), Admitted) and fits
            assert (ticket.job in found.gpus) == is_admitted
            free -= ticket.gpus if is_admitted else 0


# ---- priority ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_higher_priority_comes_before_all_that_a_policy_goes_by(name: str) -> None:
    tickets = [waiting("a1", 4, 0.0, remaining_s=1.0), waiting("b2", 4, 1.0, priority=1)]
    assert run_by(schedule(name, tickets, 4, 10.0)) == {"b2"}


@pytest.mark.parametrize("name", NAMES)
def test_waiting_raises_the_priority_up_to_the_highest(name: str) -> None:
    tickets = [waiting("a1", 4, 0.0, remaining_s=9.0), waiting("b2", 4, 1900.0, priority=2)]
    assert run_by(schedule(name, tickets, 4, 1799.0)) == {"b2"}
    assert run_by(schedule(name, tickets, 4, 1900.0)) == {"a1"}


@pytest.mark.parametrize("name", ["tiresias", "srtf", "gandiva"])
def test_a_job_yields_to_a_higher_priority_and_not_to_a_lower_one(name: str) -> None:
    low = running("a1", 4, 0.0, remaining_s=9.0)
    found = schedule(name, [low, waiting("b2", 4, 90.0, remaining_s=99.0, priority=1)], 4, 100.0)
    assert (found.of("a1").act, found.of("b2").act) == (Act.YIELD, Act.RUN)
    high = running("a1", 4, 0.0, remaining_s=9.0, priority=1)
    assert run_by(schedule(name, [high, waiting("b2", 4, 90.0, remaining_s=1.0)], 4, 100.0)) == {
        "a1"
    }


@pytest.mark.parametrize("name", ["tiresias", "srtf", "themis"])
def test_elastic_jobs_shrink_to_their_least_before_anybody_yields(name: str) -> None:
    elastic = running("e1", 6, 0.0, least_gpus=2, most_gpus=8, remaining_s=1e4)
    rigid = running("r2", 2, 0.0, remaining_s=1e4)
    urgent = waiting("u3", 4, 9e3, priority=1, remaining_s=1e5)
    found = schedule(name, [elastic, rigid, urgent], 8, 1e4)
    assert dict(found.gpus) == {"e1": 2, "r2": 2, "u3": 4}
    assert found.of("e1").act is Act.RESIZE
    # Where that is not enough, somebody yields as well; where it helps nobody, it keeps its size.
    more = schedule(name, [elastic, rigid, replace(urgent, gpus=6)], 8, 1e4)
    assert more.gpus["u3"] == 6
    assert more.of("e1").act in {Act.RESIZE, Act.YIELD}
    never = schedule(name, [elastic, rigid, replace(urgent, gpus=9)], 8, 1e4)
    assert dict(never.gpus) == {"e1": 6, "r2": 2}
    # For a job of its own priority nobody shrinks; nor does one that has no checkpoint.
    equal = schedule(name, [elastic, rigid, replace(urgent, priority=0)], 8, 1e4)
    assert equal.of("e1").act is not Act.RESIZE
    stays = schedule(name, [replace(elastic, can_suspend=False), rigid, urgent], 8, 1e4)
    assert stays.gpus["e1"] == 6


def test_nobody_shrinks_for_a_job_that_finds_room() -> None:
    elastic = running("e1", 4, 0.0, least_gpus=2, most_gpus=8)
    found = schedule("tiresias", [elastic, waiting("u3", 4, 9.0, priority=1)], 8, 10.0)
    assert dict(found.gpus) == {"e1": 4, "u3": 4}


# ---- falls -------------------------------------------------------------------------------------


def test_services_that_differ_by_a_rounding_error_are_equal() -> None:
    """Both fell at 3250 GPU-s and stand in the order in which they did."""
    exact = suspended("a1", 4, 812.5, since_s=900.0)
    off = replace(
        suspended("b2", 4, 812.5, since_s=1000.0),
        service_gpu_s=3250.0000000000036,
        counted_gpu_s=3250.0000000000036,
    )
    found = schedule("tiresias", [off, exact], 4, 1000.0)
    assert [one.job for one in found.order] == ["a1", "b2"]
    assert run_by(found) == {"a1"}


@pytest.mark.parametrize("policy", ["tiresias", "gittins"])
@pytest.mark.parametrize("seen_after_s", [0.0, 4.0, 20.0])
def test_who_falls_goes_behind_though_it_is_seen_late(policy: str, seen_after_s: float) -> None:
    fell_first = suspended("a1", 4, 815.0, since_s=1000.0)
    falls = running("b2", 4, 1000.0)
    now_s = 1000.0 + 3250.0 / 4 + seen_after_s
    seen = replace(view([fell_first, falls], 4, now_s), late_s=30.0)
    assert run_by(by_usual(policy, seen)) == {"a1"}
    # Nobody has taken its GPUs: it runs on, ahead of those that wait.
    later = replace(view([fell_first, falls], 4, now_s + 60.0), late_s=30.0)
    assert run_by(by_usual(policy, later)) == {"b2"}
    # Once it is suspended its place is that of its fall, whatever it ran beyond it.
    stopped = suspended("b2", 4, 812.5 + seen_after_s, since_s=now_s)
    both = replace(view([fell_first, stopped], 4, now_s + 100.0), late_s=30.0)
    assert run_by(by_usual(policy, both)) == {"a1"}


def test_who_falls_before_it_may_be_suspended_goes_behind_then() -> None:
    fell_first = suspended("a1", 16, 300.0, since_s=1000.0)
    falls = running("b2", 16, 1000.0)
    pinned = schedule("tiresias", [fell_first, falls], 16, 1299.0, least_run="300")
    assert run_by(pinned) == {"b2"}
    assert pinned.next_change_s == 1300.0
    assert run_by(schedule("tiresias", [fell_first, falls], 16, 1300.0, least_run="300")) == {"a1"}


def test_a_job_that_its_queue_had_started_comes_before_those_that_fell() -> None:
    fell = suspended("a1", 4, 812.5, since_s=900.0)
    served = suspended("b2", 4, 900.0, since_s=2000.0, started_gpu_s=3250.0)
    assert run_by(schedule("tiresias", [fell, served], 4, 2100.0)) == {"b2"}


def test_gittins_looks_when_the_index_of_one_that_runs_falls() -> None:
    tickets = [running("a1", 2, 0.0), waiting("b2", 2, 1.0)]
    samples = "100,100,100,3000"
    found = schedule("gittins", tickets, 2, 10.0, samples=samples)
    assert run_by(found) == {"a1"}
    assert found.next_change_s == pytest.approx(50.0)
    assert run_by(schedule("gittins", tickets, 2, found.next_change_s, samples=samples)) == {"b2"}


def test_gittins_without_samples_says_so() -> None:
    row = schedule("gittins", [waiting("a1", 1)], 1).of("a1")
    assert row.why.endswith("no past jobs are known, so attained service alone decides")
    known = schedule("gittins", [waiting("a1", 1)], 1, samples="10").of("a1")
    assert "no past jobs" not in known.why


def test_themis_looks_when_a_waiting_job_passes_one_whose_lease_is_over() -> None:
    runs = running("a1", 4, 0.0, remaining_s=4000.0)
    waits = waiting("b2", 4, 1500.0, remaining_s=2000.0)
    now_s = 1500.0
    while run_by(found := schedule("themis", [runs, waits], 4, now_s)) == {"a1"}:
        assert found.next_change_s <= now_s + 60.0
        now_s = found.next_change_s
    assert run_by(found) == {"b2"}


# ---- backfilling -------------------------------------------------------------------------------


def test_nobody_passes_a_head_of_which_nobody_knows_when_it_starts() -> None:
    """Three of its four GPUs are with jobs of which this queue knows nothing."""
    tickets = [waiting("h1", 4, 1.0), waiting("s2", 1, 2.0, remaining_s=10.0)]
    seen = SchedulingView(tickets, GpuCount(4, 1), 10.0)
    found = by_usual("fifo-backfill", seen)
    assert not found.gpus
    assert found.of("s2").why == "it does not fit, or could delay h1 (4 GPUs), which came first"


def test_what_the_head_could_never_use_is_free_for_others() -> None:
    nodes = NodeCapacity([(4, 0), (4, 0)], {}, barred={"h1": frozenset({1})})
    nodes.free, nodes.free_gpus = [(1, 0), (4, 0)], 5
    tickets = [waiting("h1", 4, 1.0), waiting("s2", 1, 2.0), waiting("l3", 4, 3.0)]
    found = by_usual("fifo-backfill", SchedulingView(tickets, nodes, 10.0))
    assert run_by(found) == {"s2"}
    assert found.left.free_gpus == 4
    barred = nodes.copy()
    barred.barred = {"h1": frozenset({1}), "s2": frozenset({1})}
    found = by_usual("fifo-backfill", SchedulingView(tickets, barred, 10.0))
    assert run_by(found) == {"l3"}


def test_the_head_is_expected_where_its_tasks_fit_node_by_node() -> None:
    """Four GPUs are free at 100 s, two on each node; the head needs four on one, at 1000 s."""
    nodes = NodeCapacity([(4, 0), (4, 0)], {})
    soon, late = running("a1", 2, remaining_s=100.0), running("b2", 2, remaining_s=1000.0)
    rest = running("c3", 2, remaining_s=5000.0)
    for ticket, node in ((soon, 0), (late, 0), (rest, 1)):
        nodes.free[node] = (nodes.free[node][0] - 2, 0)
        nodes.pieces[ticket.job] = ((node, 2, 0),)
    nodes.free_gpus = 2
    tickets = [soon, late, rest, waiting("h4", 4, 1.0), waiting("s5", 1, 2.0, remaining_s=900.0)]
    found = by_usual("fifo-backfill", SchedulingView(tickets, nodes, 0.0))
    assert "expected in 16m40s" in found.of("h4").why
    assert "s5" in found.gpus


def by_usual(name: str, seen: SchedulingView) -> Schedule:
    known = policy_named(name).settings
    zero = {one.name: "0" for one in known if one.name in ("least_run", "least_pause")}
    return decide(policy_named(name), seen, read_settings(name, known, zero))


@pytest.mark.parametrize(
    ("name", "knobs"), [("tiresias", {"limits": "100"}), ("srtf", {}), ("srsf", {})]
)
def test_a_gang_is_not_suspended_for_the_last_seconds_that_it_needs(
    name: str, knobs: dict[str, str]
) -> None:
    """A suspend and a resume would take longer than what is left."""
    ends_soon = running(
        "a1", 8, remaining_s=2000.0, can_suspend=True, pause_cost_s=20.0, service_gpu_s=0.0
    )
    tickets = [ends_soon, waiting("b2", 8, 1990.0, remaining_s=1.0)]
    assert run_by(schedule(name, tickets, 8, 1979.0, least_run="0", **knobs)) == {"b2"}
    assert run_by(schedule(name, tickets, 8, 1981.0, least_run="0", **knobs)) == {"a1"}
    if name == "tiresias":  # what a job has declared and overrun does not keep its place
        assert run_by(schedule(name, tickets, 8, 2001.0, least_run="0", **knobs)) == {"b2"}
