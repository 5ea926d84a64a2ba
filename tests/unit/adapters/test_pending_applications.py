"""Who waits, by the ResourceManager's list of applications."""

from __future__ import annotations

import pytest

from tests.fakes.resource_manager import FakeResourceManager
from yarnam.adapters.yarn.pending_applications import PendingApplications
from yarnam.core.gang.elastic.sizing import WaitingJob
from yarnam.errors import Unavailable


def test_jobs_with_their_am_alone_wait() -> None:
    rm = FakeResourceManager()
    rm.add("application_1_1", running_containers=1)
    rm.add("application_1_2", running_containers=5)
    rm.add("application_1_3", running_containers=1, queue="root.research")
    rm.add("application_1_4", state="ACCEPTED", queue="root.research")
    rm.add("application_1_5", state="FINISHED", running_containers=0)
    rm.add("application_1_6", running_containers=1, tags=("spark",))
    waiters = PendingApplications(rm, "application_1_1")()
    assert waiters == (WaitingJob("root.research"), WaitingJob("root.research"))


def test_a_silent_resource_manager_is_unavailable() -> None:
    rm = FakeResourceManager()
    rm.failure = Unavailable("no answer")
    with pytest.raises(Unavailable):
        PendingApplications(rm, "application_1_1")()
