"""A node without Python: none on the PATH, and the submitter's own is out of its sight."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import BIN
from tests.integration.submit_world import SubmitWorld
from yarnam.cluster import EmbeddedCluster
from yarnam.cluster.cluster_paths import clusters_dir
from yarnam.cluster.hadoop.daemon_commands import daemon_command
from yarnam.cluster.hadoop.site_files import container_path

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs, pytest.mark.long, pytest.mark.timeout(600)]

JOIN_S = 120.0
PYTHONS = ("python", "pypy", "py3", "pip", "uv", "pydoc", "conda")


def tools(folder: Path) -> Path:
    """What /usr/bin and /bin have, without a Python."""
    folder.mkdir()
    for source in (Path("/usr/bin"), Path("/bin")):
        for program in source.iterdir():
            link = folder / program.name
            if not program.name.startswith(PYTHONS) and not link.is_symlink():
                link.symlink_to(program)
    return folder


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """One node, whose NodeManager lives in a mount namespace where the directory of the original
    interpreter is empty."""
    original = sys.base_prefix
    probe = f"mount -t tmpfs none '{original}'"
    tried = subprocess.run(["unshare", "-m", "bash", "-c", probe], capture_output=True, check=False)
    if original == "/usr" or tried.returncode:
        pytest.skip("the original interpreter cannot be hidden here")
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    name = f"bare-{os.getpid()}"
    yarnam = [str(BIN / "yarnam"), "cluster"]
    shape = ["--nodes", "1", "--racks", "1", "--gpus", "simulated", "--gpus-per-node", "2"]
    try:
        subprocess.run([*yarnam, "up", "--name", name, *shape], env=environ, check=True)
        cluster = EmbeddedCluster(name=name, state_root=clusters_dir(environ))
        yield from _with_a_bare_node(cluster, tools(tmp_path / "tools"), probe)
    finally:
        subprocess.run([*yarnam, "down", "--name", name], env=environ, check=True)


def _with_a_bare_node(cluster: EmbeddedCluster, path: Path, hide: str) -> Iterator[EmbeddedCluster]:
    [name] = [daemon for daemon in cluster.plan.daemons if daemon.startswith("nm")]
    cluster.daemon(name).stop()
    site = cluster.paths.daemon_conf(name) / "yarn-site.xml"
    text = site.read_text()
    given = container_path(os.environ)
    assert given in text
    site.write_text(text.replace(given, str(path)))
    command = daemon_command(cluster.plan, name, {**os.environ, "PATH": str(path)})
    bash = ["unshare", "-m", "bash", "-c", f'{hide} && exec "$@"', "bash", *command.argv]
    with (cluster.paths.logs / "bare.out").open("wb") as out:
        node = subprocess.Popen(bash, env=dict(command.environment), stdout=out, stderr=out)
    try:
        _await_node(cluster, time.time())
        yield cluster
    finally:
        node.terminate()
        node.wait(60)


def _await_node(cluster: EmbeddedCluster, since_s: float) -> None:
    """The ResourceManager has the one that stopped for running until it hears of the new one."""
    deadline = time.monotonic() + JOIN_S
    while True:
        with urllib.request.urlopen(f"{cluster.rm_url}/ws/v1/cluster/nodes", timeout=10) as reply:
            [found] = json.load(reply)["nodes"]["node"]
        if found["state"] == "RUNNING" and found["lastHealthUpdate"] > since_s * 1000:
            return
        assert time.monotonic() < deadline, (cluster.paths.logs / "bare.out").read_text()[-2000:]
        time.sleep(0.5)


def test_a_job_runs_where_there_is_no_python(bare: EmbeddedCluster, tmp_path: Path) -> None:
    environ = bare.environ()
    world = SubmitWorld(tmp_path, {**environ, "PATH": f"{BIN}:{environ['PATH']}"}, bare.conf_dir)
    said = (
        "import os, shutil, ssl, sys; import yarnam.train; "
        f"print('sees', shutil.which('python3.11'), os.path.exists({sys.executable!r}), "
        "sys.executable.split('/')[-3:])"
    )
    spec = world.spec("bare", ["python3", "-c", said], environment={"python": "bundled"})
    done = world.run("submit", spec, "--watch")
    assert done.code == 0, done.out + done.err
    application = world.rm.applications(user=world.user)[0].application
    logs = world.run("logs", application, "--rank", "0").out
    # Its own, under another name, is all that there is.
    assert "sees" in logs
    assert " False ['yarnam-python', 'bin', 'python3']" in logs
    assert shutil.which("python3", path=str(tmp_path / "tools")) is None
