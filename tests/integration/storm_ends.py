"""What must hold when a storm is over: nothing torn, nothing held, nothing left that nobody will
clear away."""

from __future__ import annotations

import json
import re
import shutil
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hdfs_utils import checkpoints, connect
from hdfs_utils.errors import NotFound
from hdfs_utils.outputs.committer import MANIFEST, SUCCESS
from tests.integration.fault_world import LIMIT_S
from tests.integration.storm_training import PARTS, content

if TYPE_CHECKING:
    from hdfs_utils import FileSystem
    from tests.integration.storm import Storm
    from tests.integration.storm_world import Run
    from yarnam.cluster import EmbeddedCluster

GONE_S = 60.0
"""From the end of all jobs until ZooKeeper has given up the last session (10 s), and the
NodeManagers have removed the last directory."""


def output_trouble(files: FileSystem, path: str) -> str:
    """What is wrong with an output; empty: it is whole, or not there."""
    try:
        found = {Path(status.path).name: status.length for status in files.list(path)}
    except NotFound:
        return ""
    parts = {name: found.pop(name) for name in list(found) if name.startswith("part-")}
    if not found and not parts:
        return ""  # an empty one may stand there before the job, and counts as none
    if set(found) != {MANIFEST, SUCCESS} or len(parts) != PARTS:
        return f"{path} has {sorted(found)} and {sorted(parts)}"
    for name in parts:
        text = files.read_bytes(f"{path}/{name}")
        step, part = text[:40].decode().split(";")[0].split()[1::2]
        if text != content(int(step), int(part)) or name != f"part-{part}":
            return f"{path}/{name} is torn"
    return ""


def torn(storm: Storm) -> list[str]:
    """Checkpoints and outputs that were torn or lost, seen by the jobs or now."""
    wrong = list(storm.torn)
    for run in storm.runs:
        wrong += [f"{run.job.id}: {path.read_text()}" for path in run.folder.glob("torn-*")]
        wrong += [f"{run.job.id}: {text}" for text in data_trouble(storm, run)]
    return wrong


def data_trouble(storm: Storm, run: Run) -> Iterator[str]:
    """Of a job that has succeeded."""
    home = storm.home(run)
    if text := output_trouble(storm.files, f"{home}/result"):
        yield text
    elif not storm.files.exists(f"{home}/result/{SUCCESS}"):
        yield f"{home}/result is not there"
    job = run.job.record().job
    names = {Path(status.path).name for status in storm.files.list(home)}
    if left := names - {"result", "checkpoints"}:
        yield f"{home} holds {left}"
    spec = job.checkpoint.directory
    files = connect(spec, conf_dir=str(storm.net.conf))
    names = [Path(status.path).name for status in files.list(files.own_path(spec))]
    if corrupt := [name for name in names if name.startswith("corrupt-")]:
        yield f"{spec} holds {corrupt}"
    saved = int((run.folder / "saved").read_text())
    newest = checkpoints.latest(spec, fs=files, report=lambda _skipped: None)
    if newest is None or newest.step < saved:
        yield f"{spec}: step {saved} was saved, the newest whole one is {newest}"


# ---- what is left -------------------------------------------------------------------------------


def until_nothing(look: Callable[[], list[str]], limit_s: float = GONE_S) -> list[str]:
    deadline = time.monotonic() + limit_s
    while (left := look()) and time.monotonic() < deadline:
        time.sleep(1.0)
    return left


def znodes(cluster: EmbeddedCluster) -> dict[str, bool]:
    """All of yarnam's, and whether each goes with its session."""
    from kazoo.client import KazooClient

    found: dict[str, bool] = {}
    client = KazooClient(hosts=cluster.zookeeper)
    client.start(timeout=30)
    try:
        todo = ["/yarnam"] if client.exists("/yarnam") else []
        while todo:
            path = todo.pop()
            if (stat := client.exists(path)) is not None:
                found[path] = stat.ephemeralOwner != 0
                todo += [f"{path}/{name}" for name in client.get_children(path)]
    finally:
        client.stop()
        client.close()
    return found


def left_in_zookeeper(cluster: EmbeddedCluster) -> list[str]:
    """Of jobs that are over, but for node hints: other jobs remove those after half an hour."""
    return [
        f"znode {path}"
        for path, is_ephemeral in znodes(cluster).items()
        if is_ephemeral or (re.search(r"application_\d", path) and "/hints/" not in path)
    ]


def left_on_nodes(cluster: EmbeddedCluster) -> list[str]:
    """Directories of applications, below what the NodeManagers keep for them."""
    found = []
    for node in cluster.nodes:
        for pattern in ("local/usercache/*/appcache/*", "local/nmPrivate/application_*"):
            found += [str(path) for path in cluster.paths.daemon_data(node.name).glob(pattern)]
    return found


def left_on_hdfs(storm: Storm) -> list[str]:
    """Skein's directories of applications, and directories of jobs that YARN has never seen."""
    home = f"/user/{storm.cluster.plan.user}"
    found = []
    if storm.files.exists(f"{home}/.skein"):
        found += [status.path for status in storm.files.list(f"{home}/.skein")]
    url = f"{storm.cluster.rm_url}/ws/v1/cluster/apps"
    with urllib.request.urlopen(url, timeout=30) as reply:
        apps = (json.load(reply).get("apps") or {}).get("app") or []
    known = " ".join(app["applicationTags"] for app in apps)
    for status in storm.files.list(f"{home}/.yarnam/jobs"):
        if Path(status.path).name not in known:
            found.append(status.path)
    return found


def keep_records(storm: Storm) -> Path:
    """What explains a failure, and goes with the cluster otherwise; where it is now."""
    folder = storm.folder.parent / "records"
    shutil.copytree(storm.cluster.paths.logs, folder / "daemons", dirs_exist_ok=True)
    for node in storm.cluster.nodes:
        logs = storm.cluster.paths.daemon_data(node.name) / "container-logs"
        shutil.copytree(logs, folder / "containers", dirs_exist_ok=True)
    for run in storm.runs:
        for what in ("logs", "events"):
            with suppress(AssertionError):  # HDFS may be what is broken
                done = storm.world.yarnam(what, run.job.id).wait(30.0)
                (folder / f"{run.gang.name}.{what}").write_text(str(done))
    return folder


def wrong_verdicts_of_left(storm: Storm, limit_s: float = LIMIT_S) -> list[str]:
    """Of killed clients' jobs: each that YARN has taken ends well."""
    wrong = []
    deadline = time.monotonic() + limit_s
    for name in storm.left_alone:
        query = urllib.parse.urlencode({"user": storm.cluster.plan.user, "limit": 100000})
        while True:
            apps = (storm.world.rm(f"apps?{query}")["apps"] or {}).get("app") or []
            mine = [app for app in apps if app["name"] == name]
            if all(app["state"] in {"FINISHED", "FAILED", "KILLED"} for app in mine):
                break
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
        if len(mine) > 1:
            wrong.append(f"{name} was submitted {len(mine)} times")
        wrong += [
            f"{name}: {app['state']} {app['finalStatus']}, {app['diagnostics']}"
            for app in mine
            if app["finalStatus"] != "SUCCEEDED"
        ]
    return wrong
