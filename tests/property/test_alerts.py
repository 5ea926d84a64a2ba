"""Alerts over any course of looks: each is said once and cleared once, and what was not read
changes nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from yarnam.core.model.ids import NodeId
from yarnam.core.model.snapshot import NodeStrike
from yarnam.core.queues.overview.alerts import (
    LONGEST_GAP_S,
    NO_ALERTS,
    SHORT_FOR_S,
    STRIKES,
    STRIKES_FOR_S,
    AlertKind,
    AlertState,
    Observation,
    Waiting,
    step_alerts,
)

NAMES = st.sampled_from(["a", "b", "c"])
TIMES = st.floats(0, 300_000)
ALL_STRIKES = st.lists(
    st.builds(NodeStrike, NAMES.map(NodeId), NAMES, TIMES, st.just("why")), max_size=12
).map(tuple)
SHORT = st.dictionaries(NAMES, st.just("it is short"))
WAITING = st.dictionaries(NAMES, st.builds(Waiting, st.booleans(), TIMES, st.just("it is late")))
LOOKS = st.lists(
    st.tuples(
        st.builds(
            Observation,
            st.none() | ALL_STRIKES,
            st.none() | SHORT,
            st.none() | WAITING,
        ),
        st.floats(-100, 20_000),
    ),
    max_size=20,
)


@given(LOOKS)
def test_each_is_said_once_and_cleared_once(looks: list[tuple[Observation, float]]) -> None:
    state, now_s = NO_ALERTS, 100_000.0
    active: set[tuple[AlertKind, str]] = set()
    for seen, later_s in looks:
        now_s += later_s
        step = step_alerts(state, seen, now_s)
        state = step.state
        said = [(one.kind, one.subject) for one in step.said]
        cleared = [(one.kind, one.subject) for one in step.cleared]
        assert len({*said, *cleared}) == len(said) + len(cleared)
        assert active.isdisjoint(said)
        assert active.issuperset(cleared)
        active = (active | set(said)) - set(cleared)
        assert active == {(one.kind, one.subject) for one in state.active}
        again = step_alerts(state, seen, now_s)
        assert (again.said, again.cleared) == ((), ())
        assert again.state.active == state.active


@given(LOOKS, st.sampled_from(list(AlertKind)))
def test_what_was_not_read_neither_says_nor_clears(
    looks: list[tuple[Observation, float]], kind: AlertKind
) -> None:
    state, now_s = NO_ALERTS, 100_000.0
    for seen, later_s in looks:
        now_s += later_s
        state = step_alerts(state, seen, now_s).state
    parts = {
        AlertKind.NODE_STRUCK: None if kind is AlertKind.NODE_STRUCK else (),
        AlertKind.QUEUE_SHORT: None if kind is AlertKind.QUEUE_SHORT else {},
        AlertKind.GANG_LATE: None if kind is AlertKind.GANG_LATE else {},
    }
    step = step_alerts(state, Observation(*parts.values()), now_s + 900_000.0)  # type: ignore[arg-type]
    assert step.said == ()
    assert {one.kind for one in step.state.alerts} <= {kind}
    assert [one for one in step.state.alerts if one.kind is kind] == [
        one for one in state.alerts if one.kind is kind
    ]


@given(ALL_STRIKES, st.floats(100_000, 400_000))
def test_a_node_is_struck_by_as_many_strikes_of_one_day(
    strikes: tuple[NodeStrike, ...], now_s: float
) -> None:
    step = step_alerts(NO_ALERTS, Observation(strikes), now_s)
    recent = {one for one in strikes if now_s - STRIKES_FOR_S < one.at_s <= now_s}
    struck = {one.node for one in recent}
    expected = {n for n in struck if sum(one.node == n for one in recent) >= STRIKES}
    assert {one.subject for one in step.said} == expected


@given(st.lists(st.floats(1, 3 * SHORT_FOR_S), min_size=1, max_size=12))
def test_a_queue_is_short_for_an_hour_of_looks_without_a_gap(gaps: list[float]) -> None:
    state, now_s, since_s = NO_ALERTS, 0.0, 0.0
    state = step_alerts(state, Observation(short={"q": "short"}), now_s).state
    was_said = False
    for gap_s in gaps:
        now_s += gap_s
        since_s = since_s if gap_s <= LONGEST_GAP_S or was_said else now_s
        step = step_alerts(state, Observation(short={"q": "short"}), now_s)
        state = step.state
        is_due = now_s - since_s >= SHORT_FOR_S
        assert bool(step.said) == (is_due and not was_said)
        was_said = was_said or is_due
    assert len(step_alerts(state, Observation(short={}), now_s).cleared) == was_said


def test_the_state_is_bounded_whatever_is_seen() -> None:
    strikes = tuple(
        NodeStrike(NodeId(f"n{k % 900}"), f"j{k}", 50_000.0 + k, "w" * 400) for k in range(20_000)
    )
    waiting = {f"application_1_{k}": Waiting(True, 0.0, "late") for k in range(5000)}
    state = AlertState()
    for _ in range(3):
        state = step_alerts(state, Observation(strikes, {}, waiting), 90_000.0).state
    assert len(state.alerts) == 1000
    assert len(state.strikes) == 2000
