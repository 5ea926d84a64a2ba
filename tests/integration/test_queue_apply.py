"""``yarnam queues apply`` on a real cluster: the ResourceManager takes the file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.queue_files import more_queues
from tests.integration.submit_world import SubmitWorld

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = pytest.mark.yarn


@pytest.mark.long
def test_a_file_is_shown_applied_and_taken(
    cluster: EmbeddedCluster, cluster_env: dict[str, str], tmp_path: Path
) -> None:
    world = SubmitWorld(tmp_path, cluster_env, cluster.conf_dir)
    path = cluster.plan.paths.queues("fair")
    linted = world.run("queues", "lint", str(path), "--site", str(cluster.conf_dir))
    assert linted.code == 0, linted.out
    planned = tmp_path / "fair-scheduler.xml"
    own = path.read_text()
    planned.write_text(own.replace('name="research"><weight>2<', 'name="research"><weight>5<'))
    with more_queues(cluster, cluster_env, ""):  # puts the cluster's own back
        shown = world.run("queues", "apply", str(planned), "--dry-run")
        assert shown.code == 0, shown.err
        assert path.read_text() == own
        assert ["root.research", "weight", "2", "5"] in [
            line.split() for line in shown.out.splitlines()
        ]
        done = world.run("queues", "apply", str(planned), "--json")
        assert done.code == 0, done.err
        assert path.read_text() == planned.read_text()
        assert Path(done.json["backup"]).read_text() == own
        Path(done.json["backup"]).unlink()
        again = world.run("queues", "diff", str(path), str(planned))
        assert again.out.strip() == "No queue changes."
