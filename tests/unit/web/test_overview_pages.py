"""The first page and the page of nodes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.unit.queues.test_waiting import NODES, job, leaf, now, other
from tests.unit.web.html_pages import HOSTILE, Page
from tests.unit.web.job_values import running, with_every_text
from tests.unit.web.large_cluster import ALERTS, INFO, NOW_S, STRIKES, large_cluster
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_status import JobState
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Closure, Closures, NodeState, NodeStrike, with_cordons
from yarnam.core.model.tickets import RunningGang
from yarnam.core.queues.overview.cluster_overview import GpuUse, gpu_use, node_counts, node_rows
from yarnam.web.cluster_pages import ACTIVE_SHOWN, JobFilter, JobsView, jobs_page
from yarnam.web.overview_pages import (
    MOST_NODES,
    MOST_TROUBLED,
    MOST_WAITING,
    ClusterView,
    NodesView,
    nodes_page,
)

GANG = RunningGang("application_1_0001", "root.a", 8, 700.0, ((NodeId("n2"), 8),), 10.0)
RUNNING = replace(other(1), gang=GANG)
CLOSED = Closures({NodeId("n3"): Closure("ann", 50.0, "new RAM", 400.0)}, {})
MIXED = with_cordons(
    (
        replace(NODES[0], state=NodeState.LOST, used=Resources(0, 0, 0)),
        replace(NODES[1], used=Resources(8000, 8, 8)),
        replace(NODES[2], used=Resources(8000, 8, 2)),
        replace(NODES[3], state=NodeState.UNHEALTHY, health="disk is full"),
    ),
    CLOSED,
)
STRUCK = (NodeStrike(NodeId("n2"), "application_1_0009", 40.0, "ECC error"),)


def front(view: ClusterView, *troubles: str) -> str:
    return Page(jobs_page(JobsView(100.0, troubles=troubles, cluster=view))).words


def test_each_gpu_counts_once() -> None:
    assert gpu_use(MIXED) == GpuUse(32, used=10, free=0, closed=6, broken=16)
    assert gpu_use(NODES) == GpuUse(32, 0, 32, 0, 0)


def test_nodes_that_need_attention_come_first() -> None:
    rows = node_rows((*NODES[:0], *MIXED), (RUNNING,), CLOSED.nodes, STRUCK)
    assert [row.node.node_id for row in rows] == ["n1", "n4", "n3", "n2"]
    assert node_counts(rows) == {
        "running": 1, "cordoned": 1, "unhealthy": 1, "lost": 1, "full": 1, "struck": 1,
    }  # fmt: skip


def test_the_first_page_opens_with_what_an_administrator_looks_for() -> None:
    seen = now(leaf(), nodes=MIXED, all_nodes=MIXED, closures=CLOSED, jobs=(job(), RUNNING))
    shown = front(ClusterView(INFO, seen, STRUCK, ALERTS))
    order = ("gpu-cluster-a ACTIVE", "Alerts: 2", "10 of 32 GPUs used, 1 job running, 1 waiting",
             "GPUs broken16", "Who waits longest", "1 lost", "Active jobs: 2")  # fmt: skip
    places = [shown.index(text) for text in order]
    assert places == sorted(places)
    for text in ("disk is full", "cordoned by ann: new RAM", "its gangs leave within 5m00s",
                 "struck 1m00s ago by application_1_0009: ECC error", "ends within 10m00s",
                 "queue root.research.vision uses 107"):  # fmt: skip
        assert text in shown, text


def test_what_is_not_known_is_not_shown_as_nothing() -> None:
    shown = front(ClusterView(), "The nodes cannot be read: no answer yet")
    assert "The nodes cannot be read: no answer yet" in shown
    assert "GPUs used" not in shown
    assert "All run" not in shown


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"expected_by_s": 160.0}, "starts within 1m00s"),
        ({"expected_by_s": 40.0}, "start overdue by 1m00s"),
        ({"expected_by_s": None}, "application"),
    ],
)
def test_a_waiting_job_has_its_forecast(changes: dict[str, float], text: str) -> None:
    seen = now(leaf(), jobs=(replace(job(), **changes),))
    assert text in jobs_page(JobsView(100.0, cluster=ClusterView(None, seen))).decode()


def test_a_job_is_one_row_of_all_that_is_known_of_it() -> None:
    status = running(application=RUNNING.application, name="from its status")
    seen = now(leaf(), jobs=(RUNNING, job()))
    page = jobs_page(JobsView(100.0, (status,), cluster=ClusterView(None, seen))).decode()
    active = page[page.index('id="active"') : page.index('id="ended"')]
    assert active.count("/jobs/") == 2
    assert "from its status" in active
    assert "step 420" in active


def test_a_large_cluster_makes_a_page_of_bounded_size() -> None:
    seen = large_cluster()
    view = JobsView(NOW_S, cluster=ClusterView(INFO, seen, STRIKES, ALERTS * 50))
    page = jobs_page(view).decode()
    active = page[page.index('id="active"') : page.index('id="ended"')]
    assert active.count('<th scope="row"') == ACTIVE_SHOWN
    assert f"and {500 - ACTIVE_SHOWN} more: filter" in active
    longest = page[page.index('id="longest"') : page.index('id="troubled"')]
    assert longest.count('<th scope="row"') == MOST_WAITING
    troubled = page[page.index('id="troubled"') : page.index('id="active"')]
    assert troubled.count('<th scope="row"') == MOST_TROUBLED
    assert len(page) < 400_000
    nodes = nodes_page(NodesView(NOW_S, large_cluster(0, MOST_NODES + 7).nodes))
    assert nodes.decode().count('<th scope="row"') == MOST_NODES
    assert b"and 7 more" in nodes


def test_nodes_are_chosen_by_what_they_are() -> None:
    seen = now(leaf(), nodes=MIXED, closures=CLOSED, jobs=(RUNNING,))
    page = nodes_page(NodesView(100.0, MIXED, seen, STRUCK, "struck"))
    shown = Page(page).words
    assert "Nodes that are struck" in shown
    assert page.decode().count('<th scope="row"') == 1
    assert "other of bob (8 GPUs)" in shown
    assert "No nodes are " in Page(nodes_page(NodesView(100.0, MIXED, seen, (), HOSTILE))).words


def test_a_node_shows_nothing_free_while_it_is_closed() -> None:
    for kind in ("lost", "unhealthy", "cordoned"):
        shown = Page(nodes_page(NodesView(100.0, MIXED, None, (), kind))).words
        assert "0 of 62 GiB0 of 64" in shown


def test_text_of_others_never_becomes_markup() -> None:
    seen = now(leaf(), nodes=MIXED, closures=CLOSED, jobs=(job(), RUNNING))
    evil = replace(
        seen,
        nodes=tuple(
            replace(one, node_id=NodeId(f"{one.node_id}{HOSTILE}"), health=HOSTILE) for one in MIXED
        ),
        jobs=(replace(job(), name=HOSTILE, user=HOSTILE), replace(RUNNING, name=HOSTILE)),
        closures=Closures({NodeId("n3"): Closure(HOSTILE, 1.0, HOSTILE)}),
    )
    strikes = (NodeStrike(NodeId(f"n2{HOSTILE}"), HOSTILE, 40.0, HOSTILE),)
    alerts = tuple(replace(one, text=HOSTILE, subject=HOSTILE) for one in ALERTS)
    info = replace(INFO, name=HOSTILE, state=HOSTILE, version=HOSTILE)
    queued = with_every_text(running(state=JobState.QUEUED), HOSTILE)
    chosen = JobFilter(HOSTILE, HOSTILE, HOSTILE)
    for calm, attacked in (
        (
            jobs_page(JobsView(100.0, cluster=ClusterView(INFO, seen, STRUCK, ALERTS))),
            jobs_page(
                JobsView(100.0, [queued], (), chosen, (HOSTILE,),
                         ClusterView(info, evil, strikes, alerts))
            ),
        ),
        (
            nodes_page(NodesView(100.0, seen.nodes, seen, STRUCK)),
            nodes_page(NodesView(100.0, evil.nodes, evil, strikes, "", (HOSTILE,))),
        ),
    ):  # fmt: skip
        tags = [tag for tag, _ in Page(attacked).tags]
        assert set(tags) <= {tag for tag, _ in Page(calm).tags} | {"a"}
        assert tags.count("script") == 1
        assert b"<img" not in attacked
        assert b"\xe2\x80\xae" not in attacked


def test_each_cell_names_its_column_and_text_below_a_row_names_itself() -> None:
    seen = large_cluster(20, 30)
    page = jobs_page(JobsView(NOW_S, cluster=ClusterView(INFO, seen, STRIKES))).decode()
    cells = re.findall(r'<(?:td|th scope="row")[^>]*>', page)
    assert len(cells) > 100
    assert all(len(re.findall(r' data-column="[^"]+"', cell)) == 1 for cell in cells)
