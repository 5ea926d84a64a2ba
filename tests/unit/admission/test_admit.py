"""Whose turn it is: small clusters, drawn out."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from yarnam.core.admission import QueueSnapshot
from yarnam.core.admission.decision import admit
from yarnam.core.admission.places_ahead import NOT_SOON_S
from yarnam.core.admission.wait_queue import (
    AT_ITS_SHARE,
    CERTAIN,
    LEAST_PATIENCE_S,
    LENIENT,
    MOST_PATIENCE_S,
    SILENT_AFTER_S,
    backlog_of,
    backlog_s,
    patience_s,
    wait_queue,
)
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node, NodeState, QueueView
from yarnam.core.model.tickets import (
    ADMISSION_RULES,
    AdmissionDecision,
    Admitted,
    Demand,
    MustWait,
    RunningGang,
    Ticket,
)

NOW_S = 1000.0


def gpus(count: int) -> Resources:
    return Resources(memory_mib=1024 * count, vcores=count, gpus=count)


def nodes(*busy: int, total: int = 8, gpu_model: str = "") -> tuple[Node, ...]:
    """One node for each number of busy GPUs."""
    return tuple(
        Node(
            NodeId(f"n{i}"), RackId("/r"), NodeState.RUNNING, gpus(total), gpus(used),
            gpu_model=gpu_model,
        )
        for i, used in enumerate(busy)
    )  # fmt: skip


def snapshot(*busy: int, queue: QueueView | None = None, queues: tuple[QueueView, ...] = ()):
    return ClusterSnapshot(NOW_S, nodes(*busy), queue or QueueView("root.a"), queues=queues)


def ticket(number: int, count: int, size: int, **more: object) -> Ticket:
    given = Ticket(
        number, f"job{number}", f"name{number}", "root.a", (Demand(gpus(size), count),), NOW_S
    )
    return replace(given, **more)


FIRM_S = LENIENT * MOST_PATIENCE_S


def due(number: int, count: int, size: int, **more: object) -> Ticket:
    """One that has waited so long that nodes are kept for it, and only who ends in time passes."""
    return replace(ticket(number, count, size, taken_at_s=NOW_S - FIRM_S), **more)


def ask(
    me: Ticket,
    others: list[Ticket],
    view: ClusterSnapshot,
    running: tuple[RunningGang, ...] = (),
    *,
    fits_now: bool = True,
) -> AdmissionDecision:
    tickets = sorted([*others, me], key=lambda t: t.number)
    return admit(me, QueueSnapshot(view, tickets, running, NOW_S), fits_now=fits_now)


def may(answer: AdmissionDecision) -> Admitted:
    assert isinstance(answer, Admitted), answer
    return answer


def waits(answer: AdmissionDecision) -> MustWait:
    assert isinstance(answer, MustWait), answer
    return answer


def test_the_first_in_the_queue_asks_as_soon_as_its_gang_fits() -> None:
    me, behind = ticket(1, 2, 4), ticket(2, 1, 8)
    assert not may(ask(me, [behind], snapshot(0))).is_backfill
    answer = waits(ask(me, [behind], snapshot(4), fits_now=False))
    assert (answer.ahead, answer.head) == (0, me)
    assert "8 GPUs" in answer.reason


def test_without_an_explanation_the_first_waits_and_asks_as_with_one() -> None:
    """Of two GPUs nobody knows who uses them: the rest of the gang may be taken when it is free."""
    me = ticket(1, 1, 6)
    for ends_at_s, used, is_soon in (
        (NOW_S + 10.0, 8, True), (NOW_S + 90.0, 8, False), (NOW_S + 10.0, 6, False),
    ):  # fmt: skip
        gang = RunningGang("r", "root.a", 6, ends_at_s, ((NodeId("n0"), 6),), 0.0)
        seen = QueueSnapshot(snapshot(used), [me], (gang,), NOW_S)
        found = [admit(me, seen, fits_now=False, explain=explain) for explain in (True, False)]
        assert [isinstance(one, Admitted) for one in found] == [is_soon] * 2
        if not is_soon:
            long, short = map(waits, found)
            assert replace(long, reason="") == replace(short, reason="")


def test_two_gangs_of_five_on_eight_gpus_go_one_after_the_other() -> None:
    first, second = ticket(1, 5, 1), ticket(2, 5, 1)
    assert may(ask(first, [second], snapshot(0)))
    answer = waits(ask(second, [first], snapshot(0)))
    assert answer.head == first


def test_the_head_is_who_takes_the_gpus_and_not_who_is_passed_over() -> None:
    pieces, takes, me = ticket(1, 1, 4), ticket(2, 2, 3), ticket(3, 2, 3)
    answer = waits(ask(me, [pieces, takes], snapshot(5, 5)))
    assert (answer.ahead, answer.head) == (2, takes)


def test_the_order_of_tickets_does_not_depend_on_how_they_are_listed() -> None:
    me, others = ticket(3, 1, 8), [ticket(1, 1, 8), ticket(2, 1, 8)]
    view = snapshot(0, 0)
    for line in ([*others, me], [me, *others[::-1]]):
        answer = admit(me, QueueSnapshot(view, line, (), NOW_S), fits_now=True)
        assert waits(answer).ahead == 2


def test_room_for_both_lets_both_ask_and_names_the_nodes_to_avoid() -> None:
    head, me = ticket(1, 1, 8), ticket(2, 1, 8)
    answer = may(ask(me, [head], snapshot(0, 0)))
    assert answer.is_backfill
    assert len(answer.avoid) == 1


def test_leftover_on_the_heads_own_node_may_be_used() -> None:
    head, me = ticket(1, 1, 4), ticket(2, 1, 4)
    assert may(ask(me, [head], snapshot(0))).avoid == ()
    too_big = ticket(2, 1, 5)
    assert waits(ask(too_big, [head], snapshot(0)))


def test_what_has_been_asked_for_is_set_aside_even_for_a_later_ticket() -> None:
    """A backfill that has asked may not be asked over by those before it that have not."""
    me, later = ticket(2, 1, 8), ticket(3, 1, 8, is_acquiring=True)
    first = ticket(1, 1, 8)
    assert waits(ask(me, [first, later], snapshot(0, 0)))
    assert may(ask(me, [first, later], snapshot(0, 0, 0)))


def test_the_nodes_with_the_fewest_busy_gpus_are_kept_for_a_head_that_does_not_fit() -> None:
    head, me = due(1, 2, 8), ticket(2, 1, 2)
    view = snapshot(1, 2, 6)
    answer = may(ask(me, [head], view))
    assert answer.is_backfill
    assert answer.avoid == ("n0", "n1")
    assert waits(ask(ticket(2, 1, 3), [head], view)).head == head


def test_nodes_that_come_free_by_a_known_end_are_kept_before_emptier_ones() -> None:
    head, me = due(1, 1, 8), ticket(2, 1, 1)
    known = RunningGang("r", "root.a", 7, NOW_S + 60, ((NodeId("n1"), 7),))
    assert may(ask(me, [head], snapshot(1, 7), (known,))).avoid == ("n1",)
    assert may(ask(me, [head], snapshot(1, 7))).avoid == ("n0",)


@pytest.mark.parametrize(("duration_s", "asks"), [(50.0, True), (70.0, False), (None, False)])
def test_a_short_gang_may_stand_on_kept_nodes_if_it_ends_in_time(
    duration_s: float | None, asks: bool
) -> None:
    head = due(1, 1, 8)
    me = ticket(2, 1, 2, duration_s=duration_s)
    known = RunningGang("r", "root.a", 6, NOW_S + 60, ((NodeId("n0"), 6),))
    answer = ask(me, [head], snapshot(6), (known,))
    assert isinstance(answer, Admitted) is asks
    if isinstance(answer, MustWait):
        assert "expected in 1m00s" in answer.reason


def test_a_gang_of_unknown_duration_never_stands_on_kept_nodes() -> None:
    head, me = due(1, 1, 8), ticket(2, 1, 1)
    assert waits(ask(me, [head], snapshot(6)))


def test_a_big_gang_does_not_starve_behind_small_ones() -> None:
    """Small ones that would take what comes free on its nodes wait behind it."""
    big = due(1, 4, 8)
    view = snapshot(1, 1, 1, 1)
    for number in range(2, 6):
        assert waits(ask(ticket(number, 1, 1), [big], view)).head == big


def test_a_node_whose_gang_runs_on_and_on_is_given_up_for_another() -> None:
    """What has run long is expected to run long: the endless gang does not hold the head up."""
    head, me = due(1, 1, 8), ticket(2, 1, 1)
    view = snapshot(1, 5)

    def running(since_s: float) -> tuple[RunningGang, ...]:
        return (
            RunningGang("e", "root.a", 1, None, ((NodeId("n0"), 1),), NOW_S - since_s),
            RunningGang("s", "root.a", 5, None, ((NodeId("n1"), 5),), NOW_S - 60),
        )

    assert may(ask(me, [head], view, running(60))).avoid == ("n0",)
    assert may(ask(me, [head], view, running(86400))).avoid == ("n1",)


def test_the_less_work_is_left_on_a_node_the_sooner_it_is_kept() -> None:
    """One GPU for two hours is less than seven for one: what has come free is not given away."""
    head, me = due(1, 1, 8), ticket(2, 1, 1)
    one = RunningGang("one", "root.a", 1, NOW_S + 7200, ((NodeId("n0"), 1),))
    many = RunningGang("many", "root.a", 7, NOW_S + 3600, ((NodeId("n1"), 7),))
    assert may(ask(me, [head], snapshot(1, 7), (one, many))).avoid == ("n0",)


def test_gpus_that_nobody_tells_of_may_come_free_at_once() -> None:
    """A gang that has just ended looks like that: no backfill is short enough."""
    head, me = due(1, 1, 8), ticket(2, 1, 1, duration_s=10.0)
    known = RunningGang("r", "root.a", 2, NOW_S + 5, ((NodeId("n0"), 2),))
    assert waits(ask(me, [head], snapshot(6), (known,)))


def test_kept_nodes_of_one_rack_leave_the_others_open() -> None:
    racks = ("/r0", "/r0", "/r1", "/r1")
    view = snapshot(3, 3, 3, 2)
    placed = (replace(n, rack=RackId(r)) for n, r in zip(view.nodes, racks, strict=True))
    view = replace(view, nodes=tuple(placed))
    answer = may(ask(ticket(2, 1, 1), [due(1, 2, 8)], view))
    assert answer.avoid == ("n2", "n3")


def with_kept_nodes(waited_s: float) -> Admitted:
    """One of two racks is kept for the head."""
    view = snapshot(1, 4)
    placed = (replace(n, rack=RackId(r)) for n, r in zip(view.nodes, ("/a", "/b"), strict=True))
    running = (RunningGang("r", "root.a", 1, NOW_S + 7200, ((NodeId("n0"), 1),)),)
    head = ticket(1, 1, 8, taken_at_s=NOW_S - waited_s)
    return may(ask(ticket(2, 1, 1), [head], replace(view, nodes=tuple(placed)), running))


def test_nothing_is_left_to_chance_for_a_head_that_has_waited_very_long() -> None:
    assert not with_kept_nodes(CERTAIN * MOST_PATIENCE_S - 1).is_strict
    answer = with_kept_nodes(CERTAIN * MOST_PATIENCE_S)
    assert (answer.avoid, answer.is_strict) == (("n0",), True)


def test_small_gangs_go_first_until_a_larger_one_has_waited_for_long_enough() -> None:
    big, small = ticket(1, 1, 8), ticket(2, 1, 1)
    view = snapshot(1)
    assert may(ask(small, [big], view)).reason == "first in the queue, and its gang fits"
    assert waits(ask(big, [small], view, fits_now=False)).head == small
    just = replace(big, taken_at_s=NOW_S - MOST_PATIENCE_S)
    assert waits(ask(small, [just], view)).head == just
    assert waits(ask(just, [small], view, fits_now=False)).ahead == 0


def test_of_equal_size_the_first_comes_first() -> None:
    first, second = ticket(1, 1, 8), ticket(2, 1, 8)
    assert waits(ask(second, [first], snapshot(0))).head == first
    assert not may(ask(first, [second], snapshot(0))).is_backfill


def test_gangs_of_unknown_duration_pass_a_head_that_is_not_expected_soon_but_not_for_ever() -> None:
    me, view = ticket(2, 1, 1), snapshot(1)

    def passes(waited_s: float, left_s: float) -> bool:
        known = RunningGang("r", "root.a", 1, NOW_S + left_s, ((NodeId("n0"), 1),))
        head = ticket(1, 1, 8, taken_at_s=NOW_S - waited_s)
        return isinstance(ask(me, [head], view, (known,)), Admitted)

    assert passes(MOST_PATIENCE_S, NOT_SOON_S)
    assert not passes(MOST_PATIENCE_S, NOT_SOON_S - 1)
    assert passes(FIRM_S - 1, 86400.0)
    assert not passes(FIRM_S, 86400.0)


def test_the_backlog_is_how_long_as_many_gpus_take_to_come_free_as_are_waited_for() -> None:
    ages_s = {30: 100.0, 10: 500.0}  # GPUs and the age of the gang on them: 200 s on average.
    running = [
        RunningGang(f"r{gpus}", "root.a", gpus, None, (), NOW_S - age_s)
        for gpus, age_s in ages_s.items()
    ]
    assert backlog_s(0, running, NOW_S) == 0.0
    assert backlog_s(20, running, NOW_S) == 100.0
    of_unknown_age = replace(running[0], since_s=None)
    assert backlog_s(20, [*running, of_unknown_age], NOW_S) == 100.0
    assert backlog_s(20, [of_unknown_age], NOW_S) == inf


def test_the_longer_the_queue_the_longer_the_patience_and_the_shorter_for_a_large_gang() -> None:
    two, eight, many = ticket(1, 1, 2), ticket(2, 1, 8), ticket(3, 4, 8)
    assert patience_s(eight, 1000.0) == 1000.0
    assert patience_s(two, 1000.0) == 2000.0
    assert patience_s(many, 1000.0) == 500.0
    assert patience_s(many, 2000.0) == 1000.0
    assert patience_s(two, 0.0) == LEAST_PATIENCE_S
    assert patience_s(many, inf) == MOST_PATIENCE_S


def test_the_backlog_is_the_same_for_all_who_wait() -> None:
    """A job's own ticket counts once, whether it is listed or not."""
    big, small = ticket(1, 2, 8), ticket(2, 1, 1)
    claimed, aside = (
        ticket(3, 1, 8, is_acquiring=True),
        ticket(4, 1, 8, blocked_reason="it backs off"),
    )
    gang = RunningGang("r", "root.a", 16, None, (), NOW_S - 160.0)
    seen = QueueSnapshot(snapshot(8, 8), [big, small, claimed, aside], (gang,), NOW_S)
    assert backlog_of(big, seen) == backlog_of(small, seen) == 170.0
    assert backlog_of(big, replace(seen, tickets=[small])) == 170.0


def test_a_due_job_is_the_head_though_its_queue_has_its_share() -> None:
    """Else a stream of jobs from queues below their share would keep it waiting for hours."""
    rich = QueueView("root.a", used=gpus(16), fair_share=gpus(16))
    poor = QueueView("root.b", used=gpus(0), fair_share=gpus(16))
    view = snapshot(7, 8, 8, queue=rich, queues=(rich, poor))
    big = ticket(1, 1, 8, taken_at_s=NOW_S - AT_ITS_SHARE * MOST_PATIENCE_S)
    due_later = ticket(2, 1, 8, queue="root.b", taken_at_s=big.taken_at_s + 1)
    new = ticket(3, 1, 1, queue="root.b")
    order = wait_queue(new, QueueSnapshot(view, [big, due_later, new], (), NOW_S)).order
    assert order == (big, new, due_later)
    sooner = replace(big, taken_at_s=big.taken_at_s + 10)
    order = wait_queue(new, QueueSnapshot(view, [sooner, due_later, new], (), NOW_S)).order
    assert order == (due_later, new, sooner)


def test_a_gang_over_its_declared_end_proves_nothing() -> None:
    head = due(1, 1, 8)
    over = RunningGang("r", "root.a", 6, NOW_S - 5, ((NodeId("n0"), 6),), NOW_S - 3600)
    answer = may(ask(ticket(2, 1, 2, duration_s=60.0), [head], snapshot(6), (over,)))
    assert "ends before" in answer.reason
    assert waits(ask(ticket(2, 1, 2, duration_s=7200.0), [head], snapshot(6), (over,)))


def test_a_head_whose_queue_is_at_its_maximum_blocks_nobody() -> None:
    head = ticket(1, 1, 8, queue="root.b")
    me = ticket(2, 1, 8)
    full = QueueView("root.b", used=gpus(4), maximum=gpus(8))
    assert waits(ask(me, [head], snapshot(0)))
    assert not may(ask(me, [head], snapshot(0, queues=(full,)))).is_backfill
    assert may(ask(me, [replace(head, blocked_reason="its queue is full")], snapshot(0)))


def test_a_ticket_never_lets_a_queue_exceed_its_maximum() -> None:
    queue = QueueView("root.a", used=gpus(4), maximum=gpus(8))
    answer = waits(ask(ticket(1, 1, 8), [], snapshot(0, queue=queue)))
    assert "maximum" in answer.reason


def test_a_head_below_a_queue_at_its_maximum_blocks_nobody() -> None:
    head, me = ticket(1, 1, 8, queue="root.a.x"), ticket(2, 1, 8)
    below = QueueView("root.a.x", maximum=gpus(64), headroom=gpus(4))
    assert waits(ask(me, [head], snapshot(0)))
    assert not may(ask(me, [head], snapshot(0, queues=(below,)))).is_backfill
    answer = waits(ask(head, [], snapshot(0, queue=below)))
    assert "the queues above root.a.x have" in answer.reason


def test_a_queue_below_its_share_comes_before_one_that_has_its_share() -> None:
    rich = QueueView("root.a", used=gpus(16), fair_share=gpus(16))
    poor = QueueView("root.b", used=gpus(0), fair_share=gpus(16))
    first, second = ticket(1, 1, 8), ticket(2, 1, 8, queue="root.b")
    view = snapshot(0, queue=rich, queues=(rich, poor))
    assert waits(ask(first, [second], view)).head == second
    view = snapshot(0, queue=poor, queues=(rich, poor))
    assert not may(ask(second, [first], view)).is_backfill


def test_what_a_queue_has_asked_for_counts_as_used() -> None:
    """Not twice, once it has been granted, nor where its holder is silent."""
    rich, poor = (
        QueueView(name, used=gpus(used), fair_share=gpus(16))
        for name, used in (("root.a", 8), ("root.b", 0))
    )
    view = snapshot(0, queue=rich, queues=(rich, poor))
    me, other = ticket(2, 1, 8), ticket(3, 1, 8, queue="root.b")
    asked = ticket(1, 1, 8, is_acquiring=True)
    silent = replace(asked, seen_at_s=NOW_S - SILENT_AFTER_S - 1)
    runs = RunningGang("runs", "root.a", 8, None)
    for last, first, running in (
        (me, asked, (runs,)), (other, asked, ()), (other, silent, (runs,)),
    ):  # fmt: skip
        seen = QueueSnapshot(view, [first, me, other], running, NOW_S)
        assert wait_queue(me, seen).order[-1] == last


def test_other_gpu_models_are_another_line() -> None:
    me = ticket(2, 1, 8, gpu_model="A100")
    view = ClusterSnapshot(NOW_S, nodes(0, gpu_model="A100"), QueueView("root.a"))
    other = ticket(1, 1, 8, gpu_model="V100")
    assert not may(ask(me, [other], view)).is_backfill
    assert waits(ask(me, [replace(other, gpu_model="")], view))


def test_a_job_for_other_nodes_is_in_nobodys_way() -> None:
    view = snapshot(0, 0)
    head = due(1, 1, 8, included=(NodeId("n0"),))
    me = ticket(2, 1, 8)
    assert (
        waits(ask(replace(me, included=(NodeId("n0"),)), [head], view, fits_now=False)).ahead == 1
    )
    for apart in (
        replace(me, included=(NodeId("n1"),)),
        replace(me, excluded=(NodeId("n0"),)),
    ):
        answer = may(ask(apart, [head], view))
        assert not answer.is_backfill, "the first of its own line"


def test_nodes_that_may_be_used_by_both_are_kept_for_the_first_only() -> None:
    """The head may stand on n0 and n1 alone, so n2 is free for all."""
    view = snapshot(0, 4, 0)
    head = due(1, 2, 8, included=(NodeId("n0"), NodeId("n1")))
    answer = may(ask(ticket(2, 1, 8), [head], view))
    assert answer.is_backfill
    assert answer.avoid == ("n0", "n1")
    assert waits(ask(ticket(2, 2, 8), [head], snapshot(0, 4, 0)))


def test_what_others_have_asked_for_is_laid_on_their_own_nodes() -> None:
    taking = ticket(1, 1, 8, is_acquiring=True, excluded=(NodeId("n0"),))
    me = ticket(2, 1, 8)
    answer = may(ask(me, [taking], snapshot(0, 0)))
    assert answer.avoid == ("n1",)
    assert waits(ask(replace(me, included=(NodeId("n1"),)), [taking], snapshot(0, 0)))


def test_kept_nodes_are_those_that_the_head_may_use() -> None:
    """n2 has the least work left, but the head may not go there."""
    head = due(1, 1, 8, excluded=(NodeId("n2"),))
    answer = may(ask(ticket(2, 1, 2), [head], snapshot(6, 5, 1)))
    assert answer.avoid == ("n1",)


def test_a_model_in_words_meets_the_model_in_full_and_what_nobody_knows() -> None:
    view = ClusterSnapshot(NOW_S, nodes(0, gpu_model="NVIDIA A100-SXM4-80GB"), QueueView("root.a"))
    me = ticket(2, 1, 8, gpu_model="A100")
    assert waits(ask(me, [ticket(1, 1, 8)], view))
    assert may(ask(me, [ticket(1, 1, 8, gpu_model="V100")], view))
    unknown = ClusterSnapshot(NOW_S, nodes(0), QueueView("root.a"))
    assert waits(ask(me, [ticket(1, 1, 8, gpu_model="V100")], unknown))


def test_a_silent_holder_is_passed_over() -> None:
    head = ticket(1, 1, 8, seen_at_s=NOW_S - SILENT_AFTER_S)
    me = ticket(2, 1, 8)
    assert waits(ask(me, [head], snapshot(0)))
    silent = replace(head, seen_at_s=NOW_S - SILENT_AFTER_S - 1)
    assert not may(ask(me, [silent], snapshot(0))).is_backfill
    assert may(ask(me, [replace(silent, is_acquiring=True)], snapshot(0)))


def test_the_head_accumulates_only_beside_strangers_and_only_for_a_moment() -> None:
    me = ticket(1, 1, 8)
    soon = RunningGang("r", "root.a", 4, NOW_S + 20, ((NodeId("n0"), 4),))
    alone = snapshot(4)
    beside_strangers = snapshot(4, 8)
    assert waits(ask(me, [], alone, (soon,), fits_now=False))
    assert may(ask(me, [], beside_strangers, (soon,), fits_now=False)).is_accumulating
    late = replace(soon, ends_at_s=NOW_S + 3600)
    assert waits(ask(me, [], beside_strangers, (late,), fits_now=False))


def test_nodes_that_are_away_do_not_count() -> None:
    view = snapshot(0, 0)
    lost = replace(view.nodes[1], state=NodeState.LOST)
    view = replace(view, nodes=(view.nodes[0], lost))
    assert waits(ask(ticket(2, 1, 8), [ticket(1, 1, 8)], view))


def test_roles_of_different_sizes_are_all_laid_down() -> None:
    head = replace(due(1, 2, 3), demands=(Demand(gpus(3), 2), Demand(Resources(1024, 1, 0), 1)))
    assert waits(ask(ticket(2, 1, 3), [head], snapshot(0)))
    assert may(ask(ticket(2, 1, 1), [head], snapshot(0)))


def test_with_tickets_of_another_version_in_the_line_all_go_by_arrival() -> None:
    """Each version knows its own order only: small ones first here, and there who knows what. A
    small one that would wait for the large one there, and the large one here for it, never ends."""
    large, small = ticket(1, 1, 8), ticket(2, 1, 1)
    other = ticket(3, 1, 1)
    assert waits(ask(large, [small, other], snapshot(0))).head == small
    newer = replace(other, rules=ADMISSION_RULES + 1)
    assert may(ask(large, [small, newer], snapshot(0))).reason.startswith("first in the queue")
    silent = replace(newer, seen_at_s=NOW_S - 10 * SILENT_AFTER_S)
    assert waits(ask(large, [small, silent], snapshot(0))).head == small


def test_who_has_what_one_user_may_have_waits_and_blocks_nobody() -> None:
    """Under the Capacity Scheduler. Whose ticket it is nobody knows, is not kept out."""
    full = QueueView("root.a", user_limit=gpus(4), used_by=(("ada", gpus(3)),))
    view = snapshot(0, queue=full, queues=(full,))
    mine = ticket(1, 2, 2, user="ada")
    answer = waits(ask(mine, [], view))
    assert answer.reason.startswith("ada uses ")
    assert "of queue root.a, of which one user may have" in answer.reason
    assert not may(ask(ticket(2, 2, 2, user="bob"), [mine], view)).is_backfill
    may(ask(ticket(3, 2, 2), [mine], view))
    # The last container may pass the limit.
    may(ask(ticket(1, 1, 2, user="ada"), [], view))
