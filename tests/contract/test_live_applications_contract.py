"""One contract for the list of living applications: the fake, the adapter on a ResourceManager in
memory, and on a real one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.conftest import identity
from tests.fakes.live_applications import FakeLiveApplications
from tests.fakes.resource_manager import FakeResourceManager
from yarnam.adapters.yarn.application_list import (
    ASK_EVERY_S,
    ASKS_AT_ONCE,
    FRESH_S,
    RETRY_S,
    STALE_S,
    ApplicationList,
)
from yarnam.adapters.yarn.rest import ResourceManager
from yarnam.core.model.tickets import LiveApplication
from yarnam.errors import NoPermission, Unavailable
from yarnam.ports.ticket_queue import Confirmation, LiveApplications

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

ONE = LiveApplication("application_1_1", "me", "root.dl", 1000.0, 3)


@dataclass
class Adapter:
    """On a ResourceManager in memory, with a clock of the test's."""

    rm: FakeResourceManager = field(default_factory=FakeResourceManager)
    at_s: float = 0.0

    def __post_init__(self) -> None:
        self.rm.add(ONE.application, user="me", queue="root.dl", running_containers=3)
        self.rm.attempts[ONE.application] = 2
        self.list = ApplicationList(self.rm, now_s=lambda: self.at_s)


def fake() -> LiveApplications:
    made = FakeLiveApplications(ONE)
    made.attempts[ONE.application] = 2
    return made


@pytest.mark.parametrize("make", [fake, lambda: Adapter().list], ids=["fake", "adapter"])
def test_living_applications_are_confirmed(make: Callable[[], LiveApplications]) -> None:
    found = make()
    confirmed = found.confirm({ONE.application, "application_1_9"})
    assert confirmed.trouble == ""
    assert confirmed.applications == {ONE.application: ONE}
    assert found.newest_attempt(ONE.application) == 2
    assert found.newest_attempt("application_1_9") == 0


@pytest.mark.yarn
def test_a_real_resource_manager_is_asked_the_same_way(cluster: EmbeddedCluster) -> None:
    rm = ResourceManager.from_conf(str(cluster.conf_dir), who=identity(cluster))
    confirmed = ApplicationList(rm).confirm({"application_1_1"})
    assert confirmed.trouble == ""
    assert confirmed.applications is not None
    assert "application_1_1" not in confirmed.applications
    assert ApplicationList(rm).newest_attempt("application_1_1") == 0


def test_only_yarnams_that_live_are_listed() -> None:
    world = Adapter()
    world.rm.add("application_1_2", state="FINISHED")
    world.rm.add("application_1_3", tags=("spark",))
    found = world.list.confirm({"application_1_2", "application_1_3"}).applications
    assert found is not None
    assert set(found) == {ONE.application}


def test_where_nobody_waits_nothing_is_asked() -> None:
    world = Adapter()
    assert world.list.confirm(()) == Confirmation({})
    assert world.rm.asked == 0


def test_known_names_are_asked_for_once_in_half_a_minute() -> None:
    world = Adapter()
    for second in range(int(FRESH_S)):
        world.at_s = float(second)
        world.list.confirm({ONE.application})
    assert world.rm.asked == 1
    world.at_s = FRESH_S
    world.list.confirm({ONE.application})
    assert world.rm.asked == 2


def test_a_new_application_is_known_at_once() -> None:
    world = Adapter()
    world.list.confirm({ONE.application})
    world.rm.add("application_1_2")
    found = world.list.confirm({ONE.application, "application_1_2"}).applications
    assert found is not None
    assert "application_1_2" in found


def test_a_flood_of_new_names_is_asked_for_within_limits() -> None:
    world = Adapter()
    for tenth in range(600):
        world.at_s = tenth / 10
        world.list.confirm({ONE.application, f"application_1_{tenth + 2}"})
    assert world.rm.asked <= ASKS_AT_ONCE + 60.0 / ASK_EVERY_S + 60.0 / FRESH_S + 1
    # One that is not there is not asked for again and again.
    world.at_s, world.rm.asked = 1000.0, 0
    for second in range(20):
        world.at_s = 1000.0 + second
        world.list.confirm({"application_1_700"})
    assert world.rm.asked == 1


def test_the_last_list_holds_for_five_minutes_without_an_answer() -> None:
    world = Adapter()
    world.list.confirm({ONE.application})
    world.rm.failure = Unavailable("no answer from the ResourceManager")
    world.at_s = STALE_S - 1.0
    assert world.list.confirm({ONE.application}).applications == {ONE.application: ONE}
    world.at_s = STALE_S
    confirmed = world.list.confirm({ONE.application})
    assert confirmed.applications is None
    assert "does not confirm the tickets" in confirmed.trouble
    assert "no answer" in confirmed.trouble
    world.rm.failure, world.at_s = None, STALE_S + RETRY_S
    assert world.list.confirm({ONE.application}).applications == {ONE.application: ONE}


def test_a_refusal_is_shown_and_not_asked_for_at_every_poll() -> None:
    world = Adapter()
    world.rm.failure = NoPermission("the ResourceManager's REST API requires Kerberos (SPNEGO)")
    for second in range(int(RETRY_S)):
        world.at_s = float(second)
        assert "Kerberos" in world.list.confirm({ONE.application}).trouble
        assert world.list.newest_attempt(ONE.application) == 0
    assert world.rm.asked == 2


def test_more_applications_than_are_listed_confirm_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Adapter()
    monkeypatch.setattr("yarnam.adapters.yarn.application_list.MOST", 1)
    confirmed = world.list.confirm({ONE.application})
    assert confirmed.applications is None
    assert "1 applications or more" in confirmed.trouble
