"""Which nodes a check calls slow or broken."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarnam.core.failures.node_judgement import bad_nodes, partners, summary
from yarnam.core.model.outcomes import LinkMeasure, NodeMeasures

GOOD = NodeMeasures(1000.0, 8000.0, 200.0)


def gang(count: int, **links: float) -> dict[str, NodeMeasures]:
    """Alike, with links of 500 MiB/s; ``links``: what all links of one node have instead."""
    found = {}
    for node, others in enumerate(partners(count)):
        rates = []
        for other in others:
            ends = (f"n{node}", f"n{other}")
            rate = min(links.get(end, 500.0) for end in ends)
            rates.append(LinkMeasure(ends[1], rate, 0.2, "" if rate else "UNAVAILABLE: refused"))
        found[f"n{node}"] = replace(GOOD, links=tuple(rates))
    return found


def names(measures: dict[str, NodeMeasures | None] | dict[str, NodeMeasures]) -> list[str]:
    return sorted(one.node for one in bad_nodes(dict(measures)))


@pytest.mark.parametrize("count", range(1, 9))
def test_each_node_has_another_partner_in_each_round(count: int) -> None:
    found = partners(count)
    for node, others in enumerate(found):
        assert len(others) == len(set(others)) == min(2, count - 1)
        assert node not in others
    # Each is measured by as many as it measures itself.
    assert all(sum(node in others for others in found) == len(found[node]) for node in range(count))


@pytest.mark.parametrize("count", range(1, 9))
def test_a_gang_of_good_nodes_is_good(count: int) -> None:
    assert names(gang(count)) == []


@pytest.mark.parametrize("count", range(3, 9))
@pytest.mark.parametrize("rate", [0.0, 0.5, 100.0])
def test_of_a_bad_pair_the_bad_one_is_named(count: int, rate: float) -> None:
    for bad in range(count):
        assert names(gang(count, **{f"n{bad}": rate})) == [f"n{bad}"]


def test_of_two_nodes_nobody_knows_which_one_it_is() -> None:
    assert names(gang(2, n0=0.0)) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cpu_mib_s": 400.0}, "CPU (SHA-256, one core): 400 MiB/s, usual is 1e+03"),
        ({"memory_mib_s": 2000.0}, "memory (copy): 2e+03 MiB/s, usual is 8e+03"),
        ({"disk_mib_s": 10.0}, "disk (write): 10 MiB/s, usual is 200"),
        ({"trouble": ("cannot write to the disk: full",)}, "cannot write to the disk: full"),
    ],
)
@pytest.mark.parametrize("count", [2, 3, 5])
def test_what_is_slow_is_named(count: int, change: dict[str, object], why: str) -> None:
    measures = gang(count)
    measures["n1"] = replace(measures["n1"], **change)  # type: ignore[arg-type]
    (found,) = bad_nodes(dict(measures))
    assert (found.node, found.why) == ("n1", why)


def test_absolute_limits_hold_for_a_node_alone_and_for_all_alike() -> None:
    slow = {f"n{n}": replace(GOOD, cpu_mib_s=5.0, links=()) for n in range(3)}
    assert names(slow) == ["n0", "n1", "n2"]
    assert names({"n0": replace(GOOD, disk_mib_s=0.1)}) == ["n0"]


def test_who_does_not_answer_is_broken_unless_most_do_not() -> None:
    assert names({**gang(4), "n3": None}) == ["n3"]
    assert names({**gang(4), "n2": None, "n3": None}) == []
    assert names({"n0": None}) == []


def test_what_was_not_measured_is_no_fault() -> None:
    measures = gang(3)
    measures["n0"] = replace(measures["n0"], disk_mib_s=0.0, not_run=("GPUs: no nvidia-smi",))
    assert names(measures) == []
    assert summary([GOOD]) == (
        "CPU (SHA-256, one core) 1e+03 MiB/s, memory (copy) 8e+03 MiB/s, disk (write) 200 MiB/s"
    )


RATES = st.floats(0.0, 1e6)


@given(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.none()
        | st.builds(
            NodeMeasures,
            RATES,
            RATES,
            RATES,
            RATES,
            st.lists(st.builds(LinkMeasure, st.sampled_from("abcdefx"), RATES), max_size=3).map(
                tuple
            ),
        ),
        max_size=6,
    )
)
def test_whatever_agents_say_only_nodes_of_the_check_are_judged(
    measures: dict[str, NodeMeasures | None],
) -> None:
    found = bad_nodes(measures)
    assert {one.node for one in found} <= measures.keys()
    assert all(one.why for one in found)


def test_gpus_that_talk_slowly_make_a_slow_node() -> None:
    measures = {
        name: replace(one, nccl_gib_s=30.0 if name == "n2" else 200.0)
        for name, one in gang(4).items()
    }
    (bad,) = bad_nodes(measures)
    assert (bad.node, bad.why) == ("n2", "NCCL (all-reduce): 30 GiB/s, usual is 200")
