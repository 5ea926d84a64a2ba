"""One contract for the view of the cluster: the fake, the REST adapter, and a real RM."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import identity
from tests.fakes.cluster_view import FakeView, cluster
from yarnam.adapters.yarn.rest import ResourceManager
from yarnam.client.doctor.scheduler_settings import check_scheduler
from yarnam.core.model.resources import Resources
from yarnam.errors import Unavailable
from yarnam.ports import ClusterView

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster


def resource(memory: int, vcores: int, gpus: int) -> dict[str, Any]:
    return {
        "memory": memory,
        "vCores": vcores,
        "resourceInformations": {
            "resourceInformation": [
                {"name": "memory-mb", "value": memory},
                {"name": "vcores", "value": vcores},
                {"name": "yarn.io/gpu", "value": gpus},
            ]
        },
    }


def node(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"n{number}:8041",
        "nodeHostName": f"n{number}",
        "nodeHTTPAddress": f"n{number}:8042",
        "rack": f"/rack{(number + 1) // 2}",
        "state": "RUNNING",
        "lastHealthUpdate": 1000,
        "totalResource": resource(65536, 64, 8),
        "usedResource": resource(0, 0, 0),
        **changes,
    }


def leaf(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "type": "fairSchedulerLeafQueueInfo",
        "queueName": name,
        "maxApps": 2147483647,
        "maxResources": resource(2147483647, 2147483647, 9223372036854775807),
        "maxContainerAllocation": resource(65536, 64, 8),
        "usedResources": resource(1024, 1, 2),
        "steadyFairResources": resource(100, 10, 4),
        "fairResources": resource(50, 5, 2),
        "numActiveApps": 1,
        "numPendingApps": 2,
        **changes,
    }


def scheduler(*leaves: dict[str, Any], maximum: dict[str, Any] | None = None) -> dict[str, Any]:
    root = {
        "queueName": "root",
        "maxResources": maximum or resource(262144, 256, 32),
        "childQueues": {"queue": list(leaves)},
    }
    return {"scheduler": {"schedulerInfo": {"type": "fairScheduler", "rootQueue": root}}}


class StubRm:
    """Answers what ``pages`` holds: path to (status, JSON or text)."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, Any]] = {
            "/ws/v1/cluster/nodes": (200, {"nodes": {"node": [node(n) for n in (1, 2, 3, 4)]}}),
            "/ws/v1/cluster/scheduler": (200, scheduler(leaf("root.dl"))),
        }
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[bytes] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stub.asked.append((self.command, self.path))
                length = int(self.headers.get("Content-Length") or 0)
                if length:
                    stub.bodies.append(self.rfile.read(length))
                status, body = stub.pages.get(
                    self.path.partition("?")[0],
                    (404, {"RemoteException": {"message": "not found"}}),
                )
                data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_PUT = do_GET  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def stub() -> Iterator[StubRm]:
    made = StubRm()
    yield made
    made.close()


@pytest.fixture(
    params=["fake", "rest", pytest.param("yarn", marks=[pytest.mark.yarn, pytest.mark.shapes])]
)
def view(request: pytest.FixtureRequest) -> ClusterView:
    if request.param == "fake":
        return FakeView(cluster())
    if request.param == "rest":
        stub: StubRm = request.getfixturevalue("stub")
        return ResourceManager([stub.url])
    real: EmbeddedCluster = request.getfixturevalue("cluster")
    return ResourceManager.from_conf(str(real.conf_dir), who=identity(real))


# ---- both, and the real thing -------------------------------------------------------------------


def test_four_nodes_on_two_racks_with_eight_gpus_each(view: ClusterView) -> None:
    seen = view.snapshot("root.dl")
    assert [one.total.gpus for one in seen.nodes] == [8, 8, 8, 8]
    assert sorted({one.rack for one in seen.nodes}) == ["/rack1", "/rack2"]
    assert all(one.is_usable and one.http_address for one in seen.nodes)
    assert len({one.node_id for one in seen.nodes}) == 4
    assert seen.queue.name == "root.dl"


def test_a_queue_that_is_not_there_has_no_limits(view: ClusterView) -> None:
    queue = view.snapshot("root.nowhere").queue
    assert (queue.name, queue.maximum) == ("root.nowhere", None)


# ---- the adapter --------------------------------------------------------------------------------


def test_the_queue_as_the_fair_scheduler_shows_it(stub: StubRm) -> None:
    queue = ResourceManager([stub.url]).snapshot("root.dl").queue
    assert queue.used == Resources(1024, 1, 2)
    assert queue.fair_share == Resources(50, 5, 2)
    assert queue.steady_share == Resources(100, 10, 4)
    assert queue.max_container == Resources(65536, 64, 8)
    assert (queue.running_jobs, queue.pending_jobs, queue.max_running_jobs) == (1, 2, None)


def test_a_queue_of_the_whole_cluster_has_no_maximum(stub: StubRm) -> None:
    """So it is shown where none is configured; of GPUs alone too."""
    free = leaf("root.free", maxResources=resource(262144, 256, 32))
    part = leaf("root.part", maxResources=resource(1000, 256, 32))
    stub.pages["/ws/v1/cluster/scheduler"] = (200, scheduler(free, part))
    whole, some = ResourceManager([stub.url]).queues()
    assert (whole.maximum, whole.headroom) == (None, None)
    assert some.maximum is not None
    assert some.maximum.memory_mib == 1000
    assert some.maximum.gpus > 10**6


def test_the_tightest_limit_from_the_root_down_counts(stub: StubRm) -> None:
    inner = {
        "queueName": "root.a",
        "maxResources": resource(100000, 2147483647, 6),
        "childQueues": {"queue": [leaf("root.a.b", maxResources=resource(200000, 9, 7))]},
    }
    stub.pages["/ws/v1/cluster/scheduler"] = (200, scheduler(inner))
    (queue,) = ResourceManager([stub.url]).queues()
    assert queue.name == "root.a.b"
    assert queue.maximum == Resources(100000, 9, 6)


def test_a_nodemanager_that_came_back_is_one_node(stub: StubRm) -> None:
    rows = [
        node(1, state="LOST", lastHealthUpdate=5000),
        node(1, id="n1:9999", nodeHTTPAddress="n1:9998", usedResource=resource(1, 1, 3)),
        node(2, state="UNHEALTHY"),
        node(3, state="DECOMMISSIONED"),
    ]
    stub.pages["/ws/v1/cluster/nodes"] = (200, {"nodes": {"node": rows}})
    seen = ResourceManager([stub.url]).snapshot("root.dl")
    assert [(one.node_id, one.state.value) for one in seen.nodes] == [
        ("n1", "running"),
        ("n2", "unhealthy"),
        ("n3", "lost"),
    ]
    assert seen.nodes[0].free == Resources(65535, 63, 5)


def test_gpu_model_from_the_node_attribute(stub: StubRm) -> None:
    attributes = {"nodeAttributeInfo": [{"name": "gpu-model", "value": "H200"}]}
    rows = [node(1, nodeAttributesInfo=attributes), node(2, nodeAttributesInfo=None)]
    stub.pages["/ws/v1/cluster/nodes"] = (200, {"nodes": {"node": rows}})
    seen = ResourceManager([stub.url]).snapshot("root.dl")
    assert [one.gpu_model for one in seen.nodes] == ["H200", ""]


@pytest.mark.parametrize("empty", [{"nodes": None}, {"nodes": {}}, {}])
def test_a_cluster_without_nodes(stub: StubRm, empty: dict[str, Any]) -> None:
    stub.pages["/ws/v1/cluster/nodes"] = (200, empty)
    assert ResourceManager([stub.url]).snapshot("root.dl").nodes == ()


def test_the_capacity_scheduler_gives_names_and_use(stub: StubRm) -> None:
    info = {
        "type": "capacityScheduler",
        "queueName": "root",
        "queues": {"queue": {"queueName": "a", "resourcesUsed": resource(5, 1, 1)}},
    }
    stub.pages["/ws/v1/cluster/scheduler"] = (200, {"scheduler": {"schedulerInfo": info}})
    (queue,) = ResourceManager([stub.url]).queues()
    assert (queue.name, queue.used) == ("root.a", Resources(5, 1, 1))


@pytest.mark.parametrize("labels", [("",), ("gpu", "")])
def test_a_look_at_the_capacity_scheduler_costs_no_more_requests(
    stub: StubRm, labels: tuple[str, ...]
) -> None:
    """Whatever partitions are looked at; its rules are asked for once."""

    def asked_by_one_look() -> list[str]:
        rm = ResourceManager([stub.url], partitions=labels)
        rm.snapshot("root.dl")
        stub.asked.clear()
        rm.snapshot("root.dl")
        return [path.partition("?")[0] for _, path in stub.asked]

    stub.pages["/conf"] = (200, {"properties": []})
    fair = asked_by_one_look()
    info = {"type": "capacityScheduler", "queueName": "root", "queues": None}
    stub.pages["/ws/v1/cluster/scheduler"] = (200, {"scheduler": {"schedulerInfo": info}})
    assert asked_by_one_look() == fair
    assert len(fair) == 2


@pytest.mark.yarn
def test_what_the_real_scheduler_hands_out(cluster: EmbeddedCluster) -> None:
    rm = ResourceManager.from_conf(str(cluster.conf_dir), who=identity(cluster))
    assert "as many containers per node heartbeat as fit" in check_scheduler(rm.settings()).message


def test_a_standby_and_a_dead_address_are_passed_over(stub: StubRm) -> None:
    standby = StubRm()
    try:
        for path in stub.pages:
            standby.pages[path] = (200, "This is standby RM. The redirect url is: /")
        rm = ResourceManager(["http://127.0.0.1:9", standby.url, stub.url])
        assert len(rm.snapshot("root.dl").nodes) == 4
        assert rm.url == stub.url
        asked = len(standby.asked)
        rm.snapshot("root.dl")
        assert len(standby.asked) == asked
    finally:
        standby.close()


def test_a_failover_is_waited_for_where_there_are_two(stub: StubRm) -> None:
    """Until then both say that they stand by."""
    standby, both = StubRm(), dict(stub.pages)
    try:
        for path in both:
            stub.pages[path] = standby.pages[path] = (200, "This is standby RM.")
        urls = [standby.url, stub.url]
        with pytest.raises(Unavailable):
            ResourceManager(urls).snapshot("root.dl")
        waiting = ResourceManager(urls, failover_s=60.0)
        threading.Timer(0.7, lambda: stub.pages.update(both)).start()
        assert len(waiting.snapshot("root.dl").nodes) == 4
        with pytest.raises(Unavailable):  # one alone is not waited for
            ResourceManager([standby.url], failover_s=60.0).snapshot("root.dl")
    finally:
        standby.close()


@pytest.mark.parametrize("status", [500, 503])
def test_a_failing_rm_is_unavailable(stub: StubRm, status: int) -> None:
    stub.pages["/ws/v1/cluster/scheduler"] = (status, "<html>oops</html>")
    with pytest.raises(Unavailable, match=str(status)):
        ResourceManager([stub.url]).snapshot("root.dl")


def test_nobody_there_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="refused"):
        ResourceManager(["http://127.0.0.1:9"]).snapshot("root.dl")


def test_kill_names_the_user_and_the_state(stub: StubRm) -> None:
    stub.pages["/ws/v1/cluster/apps/application_1_1/state"] = (202, {"state": "RUNNING"})
    ResourceManager([stub.url], user="alice").kill("application_1_1")
    assert stub.asked == [("PUT", "/ws/v1/cluster/apps/application_1_1/state?user.name=alice")]
    assert json.loads(stub.bodies[0]) == {"state": "KILLED"}


def test_applications_newest_first_and_unknown_is_none(stub: StubRm) -> None:
    rows = [
        {"id": "application_1_1", "startedTime": 1000, "finalStatus": "FAILED", "state": "FAILED"},
        {"id": "application_1_2", "startedTime": 2000, "applicationTags": "yarnam,yarnam-job-x"},
    ]
    stub.pages["/ws/v1/cluster/apps"] = (200, {"apps": {"app": rows}})
    rm = ResourceManager([stub.url])
    found = rm.applications(tags=["yarnam"])
    assert [app.application for app in found] == ["application_1_2", "application_1_1"]
    assert found[0].tags == ("yarnam", "yarnam-job-x")
    assert found[1].is_over
    assert "applicationTags=yarnam" in stub.asked[-1][1]
    assert rm.application("application_9_9") is None
    stub.pages["/ws/v1/cluster/apps"] = (200, {"apps": None})
    assert rm.applications() == ()


def test_queue_access_says_yes_no_or_nothing(stub: StubRm) -> None:
    rm = ResourceManager([stub.url])
    path = "/ws/v1/cluster/queues/root.dl/access"
    for answer, expected in (
        ((200, {"allowed": True}), True),
        ((200, {"allowed": False, "diagnostics": "no"}), False),
        ((403, {"RemoteException": {"message": "only administrators"}}), None),
    ):
        stub.pages[path] = answer
        assert rm.queue_access("root.dl", "bob") is expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((200, {"allowed": True, "user": "bob"}), True),
        ((200, {"allowed": False, "user": "bob"}), False),
        # As RMWebServices says it to one who asks for his own right and has none.
        (
            (403, {"RemoteException": {"message": "User=bob doesn't haven access to queue=root.dl "
                                       "so it cannot check ACLs for other users."}}),
            False,
        ),
        ((403, {"RemoteException": {"message": "a proxy refuses it"}}), None),
        ((404, {}), None),
    ],
)  # fmt: skip
def test_who_administers_a_queue(
    stub: StubRm, answer: tuple[int, dict[str, object]], expected: bool | None
) -> None:
    rm = ResourceManager([stub.url], user="bob")
    stub.pages["/ws/v1/cluster/queues/root.dl/access"] = answer
    assert rm.administers("root.dl", "bob") is expected
    assert "queue-acl-type=ADMINISTER_QUEUE" in stub.asked[-1][1]
