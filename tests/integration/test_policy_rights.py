"""Who may choose a queue's policy, by a real ResourceManager's own access control lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import MARKS

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld

pytestmark = [*MARKS, pytest.mark.zookeeper, pytest.mark.long, pytest.mark.timeout(300)]

QUEUE = "root.research"
STRANGER = "stranger"


def test_who_does_not_administer_the_queue_is_refused_by_name(world: FaultWorld) -> None:
    """The cluster's administrator is in no queue's list, but in ``yarn.admin.acl``."""
    rm, user = world.site.rm, world.site.user
    print(f"the ResourceManager of {user}: {rm.administers(QUEUE, user)}")
    refused = world.yarnam("policy", "set", QUEUE, "fifo", HADOOP_USER_NAME=STRANGER).wait()
    assert refused.code == 77, refused
    assert f"{STRANGER} does not administer {QUEUE}: the ResourceManager says so" in refused.err
    assert f"yarn.admin.acl (now '{user}')" in refused.err
    shown = world.yarnam("policy", "show", QUEUE).wait()
    assert "nothing is chosen" in shown.out, shown
    try:
        chosen = world.client.policies.choose(QUEUE, "fifo", {"skip": "1"})
        assert (chosen.now.policy, chosen.now.by) == ("fifo", user)
        assert world.client.policies.all()[QUEUE] == chosen.now
    finally:
        world.client.policies.choose(QUEUE, "smallest-first")
