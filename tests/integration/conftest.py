"""Fixtures of the tests on the real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from tests.integration.submit_world import SubmitWorld
    from yarnam.cluster import EmbeddedCluster


@pytest.fixture(scope="session")
def _faults(
    cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FaultWorld]:
    """With one Skein driver for all of them."""
    from tests.integration.fault_world import FaultWorld

    found = FaultWorld(cluster, tmp_path_factory.mktemp("faults"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def world(_faults: FaultWorld) -> Iterator[FaultWorld]:
    """The cluster for tests of faults. Jobs end with the module, whatever became of its tests."""
    yield _faults
    _faults.end_all()


@pytest.fixture
def submit_world(
    cluster: EmbeddedCluster, cluster_env: dict[str, str], no_leftovers: None, tmp_path: Path
) -> Iterator[SubmitWorld]:
    """The shared cluster for tests of commands, which leave no process."""
    from tests.integration.submit_world import SubmitWorld

    found = SubmitWorld(tmp_path, cluster_env, cluster.conf_dir)
    yield found
    assert found.no_process_left()
