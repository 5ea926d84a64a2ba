"""What makes no sense in the ResourceManager's replies."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from hdfs_utils.errors import MalformedData
from yarnam.adapters.yarn import rest_parse
from yarnam.adapters.yarn.json_values import UNLIMITED
from yarnam.adapters.yarn.rest import ResourceManager
from yarnam.core.model.resources import Resources
from yarnam.errors import Unavailable
from yarnam.wire import http_request

INFINITE, LONG = float("inf"), 10**400


def node(name: str, **changes: Any) -> dict[str, Any]:
    return {"id": f"{name}:8041", "nodeHostName": name, "state": "RUNNING",
            "nodeHTTPAddress": f"{name}:8042", "rack": "/r",
            "totalResource": {"memory": 1024, "vCores": 4}, **changes}  # fmt: skip


def app(number: int, **changes: Any) -> dict[str, Any]:
    return {"id": f"application_1_{number:04d}", "startedTime": number, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"rack": ["/r"]},
        {"lastHealthUpdate": INFINITE},
        {"lastHealthUpdate": "yesterday"},
        {"totalResource": [1]},
        {"totalResource": {"memory": INFINITE}},
        {"totalResource": {"memory": {}}},
        {"totalResource": {"resourceInformations": {"resourceInformation": [5]}}},
        {"nodeLabels": "gpu"},
        {"nodeLabels": [{}]},
        {"nodeAttributesInfo": 5},
        {"nodeHTTPAddress": {"a": 1}},
    ],
)
def test_a_node_that_makes_no_sense_leaves_the_others(changes: dict[str, Any]) -> None:
    rejected: list[str] = []
    reply = {"nodes": {"node": [node("a"), node("b", **changes), node("c")]}}
    found = rest_parse.nodes_of(reply, lambda name, error: rejected.append(name))
    assert [one.node_id for one in found] == ["a", "c"]
    assert rejected == ["'b:8041'"]


def test_why_a_node_does_not_run_is_yarns_own_reason() -> None:
    report = "1/1 local-dirs are bad: " + 900 * "/data "
    rows = [node("a", healthReport=report), node("b", state="UNHEALTHY", healthReport=report)]
    runs, sick = rest_parse.nodes_of({"nodes": {"node": rows}})
    assert (runs.health, len(sick.health)) == ("", rest_parse.MOST_HEALTH)
    assert sick.health.startswith("1/1 local-dirs are bad")


@pytest.mark.parametrize(
    "changes", [{"finishedTime": INFINITE}, {"progress": INFINITE}, {"progress": "half"},
                {"name": ["x"]}, {"startedTime": [1]}],
)  # fmt: skip
def test_an_application_that_makes_no_sense_leaves_the_others(changes: dict[str, Any]) -> None:
    rejected: list[str] = []
    reply = {"apps": {"app": [app(1), app(2, **changes), app(3)]}}
    found = rest_parse.applications_of(reply, lambda name, error: rejected.append(name))
    assert [one.application[-1] for one in found] == ["3", "1"]
    assert rejected == ["'application_1_0002'"]


@pytest.mark.parametrize(("host", "ident"), [("", "[::1]:8041"), ("", "::1:8041"), ("::1", "x:1")])
def test_a_node_with_an_ipv6_address_has_its_whole_address(host: str, ident: str) -> None:
    row = {**node("a"), "id": ident, "nodeHostName": host, "nodeHTTPAddress": "[::1]:8042"}
    [found] = rest_parse.nodes_of({"nodes": {"node": row}})
    assert found.node_id == "::1"


def test_huge_numbers_are_cut() -> None:
    reply = {"nodes": {"node": node("a", totalResource={"memory": LONG, "vCores": "12"})}}
    [found] = rest_parse.nodes_of(reply)
    assert found.total == Resources(UNLIMITED, 12, 0)
    [job] = rest_parse.applications_of({"apps": {"app": [app(1, startedTime=LONG)]}})
    assert job.started_at_s < 10**17
    settings = [{"key": "yarn.scheduler.minimum-allocation-mb", "value": "9" * 5000}]
    assert rest_parse.steps_of({"properties": settings}).minimum.memory_mib == 1024


def test_the_containers_of_an_attempt_but_for_its_master() -> None:
    """A single one is not a list in some versions."""
    rows = [
        {"containerId": f"container_1_0001_01_00000{number}", "assignedNodeId": f"{node}:8041",
         "priority": priority}
        for number, (node, priority) in enumerate([("n1", "0"), ("n1", "1"), ("n2", "2")], 1)
    ]  # fmt: skip
    assert rest_parse.tasks_by_node({"container": rows}) == {"n1": 1, "n2": 1}
    assert rest_parse.tasks_by_node({"container": rows[1]}) == {"n1": 1}
    assert rest_parse.tasks_by_node({}) == {}
    six = {**rows[1], "assignedNodeId": "[2001:db8::1]:8041"}
    assert rest_parse.tasks_by_node({"container": six}) == {"2001:db8::1": 1}


@pytest.mark.parametrize(
    ("parse", "json"),
    [
        (rest_parse.nodes_of, {"nodes": []}),
        (rest_parse.nodes_of, {"nodes": {"node": ["a"]}}),
        (rest_parse.applications_of, {"apps": 5}),
        (rest_parse.queues_of, {"scheduler": {"schedulerInfo": []}}),
        (rest_parse.queues_of, {"scheduler": {"schedulerInfo": {"queues": {"queue": [1]}}}}),
        (rest_parse.queues_of, {"scheduler": {"schedulerInfo": {
            "type": "fairScheduler",
            "rootQueue": {"type": "fairSchedulerLeafQueueInfo", "maxApps": "x"}}}}),
        (rest_parse.settings_of, {"properties": "x"}),
        (rest_parse.application_of, {"app": []}),
        (rest_parse.tasks_by_node, {"container": ["a"]}),
    ],
)  # fmt: skip
def test_a_reply_that_makes_no_sense(
    parse: Callable[[dict[str, Any]], object], json: dict[str, Any]
) -> None:
    with pytest.raises(MalformedData):
        parse(json)


class _Site:
    """A ResourceManager that answers the same to everything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
        reply = http_request.HttpReply(body, None)  # type: ignore[arg-type]
        monkeypatch.setattr("yarnam.adapters.yarn.rest.request", lambda *_, **__: reply)
        self.rm = ResourceManager(["http://rm:8088"])


@pytest.mark.parametrize(
    "body",
    [b"[" * 3000, b'{"nodes":' * 3000, b"[]", b"<html>", b'{"nodes":[1e400]}', b'{"apps":[1]}',
     b'{"app":[1]}', b'{"clusterInfo":[1]}', b'{"scheduler":[1]}', b'{"application-id":[1]}'],
)  # fmt: skip
def test_no_reply_ends_in_another_error_than_unavailable(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    rm = _Site(monkeypatch, body).rm
    calls: list[Callable[[], object]] = [
        lambda: rm.snapshot("root.gpu"), rm.settings, rm.info, rm.queues, rm.applications,
        lambda: rm.application("application_1_0001"), rm.new_application,
        lambda: rm.queue_access("root.gpu", "ada"),
        lambda: rm.tasks_by_node("application_1_0001", 1),
    ]  # fmt: skip
    failures = []
    for call in calls:
        try:
            call()
        except Unavailable as error:
            failures.append(error.hint)
    assert failures
    assert all(failures)


def test_a_row_that_is_left_out_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    rm = _Site(monkeypatch, b'{"apps":{"app":[{"id":"x","progress":{}},{"id":"y"}]}}').rm
    for _ in range(3):
        assert [one.application for one in rm.applications()] == ["y"]
    [message] = caplog.messages
    assert message.startswith("'x' in the reply of http://rm:8088 is left out: progress is no")
