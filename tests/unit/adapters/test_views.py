"""Views behind views: the directory of nodes, and Skein's report where REST does not answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import skein

from tests.fakes.cluster_view import FakeView, cluster
from yarnam.adapters.skein.am_client import ACTIVE, ENDED, KILLED, REQUESTED
from yarnam.adapters.skein.node_reports import FallbackView, node_of, parents_class_path
from yarnam.adapters.skein.proto import AppMasterStub, DriverStub, messages
from yarnam.adapters.yarn.node_directory import NodeDirectory
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, NodeState
from yarnam.errors import NoPermission, Unavailable


class Refusing:
    def __init__(self, error: Exception) -> None:
        self.error = error
        self.calls = 0

    def snapshot(self, queue: str, *, max_age_s: float | None = None) -> ClusterSnapshot:
        self.calls += 1
        raise self.error


def test_the_directory_knows_the_nodes_of_the_last_snapshot() -> None:
    view = FakeView(cluster())
    directory = NodeDirectory(view, "root.dl")
    directory.snapshot("root.dl")
    assert directory.find("n3:8042") == ("n3", "/rack2")
    assert view.calls == 1


def test_an_unknown_node_is_asked_for_now_and_then() -> None:
    view = FakeView(cluster(nodes=2))
    directory = NodeDirectory(view, "root.dl")
    assert directory.find("n4:8042") is None
    assert directory.find("n4:8042") is None
    assert view.calls == 1
    view.shown = cluster(nodes=4)
    directory = NodeDirectory(view, "root.dl", refresh_s=0.0)
    assert directory.find("n5:8042") is None
    assert directory.find("n4:8042") == ("n4", "/rack2")


def test_an_rm_that_does_not_answer_leaves_a_node_unknown() -> None:
    directory = NodeDirectory(Refusing(Unavailable("away")), "root.dl")
    assert directory.find("n1:8042") is None


@pytest.mark.parametrize("error", [Unavailable("away"), NoPermission("wants Kerberos")])
def test_the_second_view_answers_for_the_first(error: Exception) -> None:
    second = FakeView(cluster(nodes=3))
    seen = FallbackView(Refusing(error), second).snapshot("root.dl")
    assert len(seen.nodes) == 3


def test_the_second_view_is_not_asked_while_the_first_answers() -> None:
    second = Refusing(Unavailable("never"))
    assert FallbackView(FakeView(cluster()), second).snapshot("root.dl").nodes
    assert second.calls == 0


def test_with_both_away_the_second_is_spared() -> None:
    now = [0.0]
    second = Refusing(Unavailable("no driver"))
    view = FallbackView(
        Refusing(Unavailable("no REST")), second, pause_s=60.0, monotonic_s=lambda: now[0]
    )
    with pytest.raises(Unavailable, match=r"no REST; nor does .*no driver"):
        view.snapshot("root.dl")
    now[0] = 30.0
    with pytest.raises(Unavailable, match="no REST"):
        view.snapshot("root.dl")
    assert second.calls == 1
    now[0] = 61.0
    with pytest.raises(Unavailable):
        view.snapshot("root.dl")
    assert second.calls == 2


def test_a_node_as_skein_tells_it() -> None:
    report = messages.NodeReport(
        id="n1:8041",
        http_address="n1:8042",
        rack_name="/r1",
        state=messages.NodeState.Type.Value("RUNNING"),
        total_resources=messages.Resources(memory=100, vcores=4, gpus=8),
        used_resources=messages.Resources(memory=10, vcores=1, gpus=3),
    )
    node = node_of(report)
    assert (node.node_id, node.rack, node.state) == ("n1", "/r1", NodeState.RUNNING)
    assert node.free == Resources(90, 3, 5)


def test_the_messages_are_skeins_own() -> None:
    """Loaded without the package; if Skein renames something this must be noticed."""
    container = messages.Container(service_name="s", instance=3, state=5)
    parsed = skein.model.Container.from_protobuf(
        skein.proto.Container.FromString(container.SerializeToString())
    )
    assert (parsed.service_name, parsed.instance, str(parsed.state)) == ("s", 3, KILLED)
    known = set(messages.Container.State.keys())
    assert known == {*ACTIVE, *ENDED}
    assert REQUESTED in known
    for stub, methods in (
        (AppMasterStub, ("addContainer", "getContainers", "killContainer", "shutdown")),
        (DriverStub, ("getNodes",)),
    ):
        made = stub(__import__("grpc").insecure_channel("127.0.0.1:9"))
        assert all(hasattr(made, method) for method in methods)


def test_the_class_path_comes_from_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = Path(f"/proc/{os.getppid()}/environ").read_bytes()
    if b"\0CLASSPATH=" in environ:
        assert parents_class_path()
    else:
        with pytest.raises(Unavailable, match="no CLASSPATH"):
            parents_class_path()
