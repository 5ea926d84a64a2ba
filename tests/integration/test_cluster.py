"""The embedded cluster itself: real daemons, brought up, hurt, repaired and taken down.

These tests bring up small clusters of their own (the shared one must stay whole).
"""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from yarnam.cluster import EmbeddedCluster
from yarnam.cluster.cluster_paths import ClusterPaths, cache_dir, clusters_dir
from yarnam.cluster.daemons.daemon_processes import read_record
from yarnam.cluster.lifecycle import living_processes
from yarnam.cluster.software.java import find_java
from yarnam.cluster.software.physical_gpus import find_physical_gpus
from yarnam.errors import ExitCode

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs, pytest.mark.zookeeper, pytest.mark.long]

YARNAM = [str(Path(sys.executable).with_name("yarnam")), "cluster"]
# A command on a machine that is busy with other things.
COMMAND_LIMIT_S = 240
UP_LIMIT_S = 40.0
FOUR_NODES_LIMIT_MIB = 3 * 1024


@dataclass(frozen=True)
class Home:
    """A user's state of their own; downloads stay shared."""

    environ: dict[str, str]

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*YARNAM, *arguments],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=COMMAND_LIMIT_S,
            check=False,
        )
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*YARNAM, *arguments],
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def paths(self, name: str) -> ClusterPaths:
        return ClusterPaths(clusters_dir(self.environ), name)

    def cluster(self, name: str) -> EmbeddedCluster:
        return EmbeddedCluster(name=name, state_root=clusters_dir(self.environ))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    state = tmp_path_factory.mktemp("state")
    home = Home({**os.environ, "XDG_STATE_HOME": str(state)})
    yield home
    for record in clusters_dir(home.environ).glob("*/cluster.json"):
        home.run("down", "--name", record.parent.name)


@pytest.fixture(scope="module")
def pair(home: Home) -> EmbeddedCluster:
    """Two nodes on two racks, a DataNode on each."""
    home.run("up", *PAIR)
    return home.cluster("pair")


# Nodes expire late: a restart on a busy machine must not count as a loss.
PAIR = (
    "--name", "pair", "--nodes", "2", "--racks", "2", "--gpus", "simulated",
    "--gpus-per-node", "4", "--datanodes", "2", "--gpu-model", "A100", "--nm-expiry-s", "25",
)  # fmt: skip


@pytest.fixture
def whole(home: Home, pair: EmbeddedCluster) -> EmbeddedCluster:
    """The pair, repaired where an earlier test has left it hurt."""
    home.run("up", *PAIR)
    return pair


def wait_until(what: str, condition: Callable[[], object], limit_s: float = 60.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {limit_s} s"
        time.sleep(0.1)


# -- what is up -----------------------------------------------------------------------------------


def test_it_is_what_was_asked_for(home: Home, whole: EmbeddedCluster) -> None:
    status = json.loads(home.run("status", "--name", "pair", "--json").stdout)
    assert status["healthy"], status["problems"]
    assert {daemon["name"] for daemon in status["daemons"]} == {
        "relay", "zk", "rm", "nn", "dn1", "dn2", "nm1", "nm2",
    }  # fmt: skip
    found = [(node["rack"], node["gpus"], node["gpu_model"]) for node in status["nodes"]]
    assert found == [("/rack1", 4, "A100"), ("/rack2", 4, "A100")]
    assert len({node["address"] for node in status["nodes"]}) == 2


def test_the_resource_manager_counts_the_gpus_and_knows_the_models(
    whole: EmbeddedCluster,
) -> None:
    rows = call(whole, "GET", "/ws/v1/cluster/nodes")["nodes"]["node"]
    for row in rows:
        resources = row["totalResource"]["resourceInformations"]["resourceInformation"]
        assert {"yarn.io/gpu": 4}.items() <= {r["name"]: r["value"] for r in resources}.items()
        attributes = row["nodeAttributesInfo"]["nodeAttributeInfo"]
        assert [(each["name"], each["value"]) for each in attributes] == [("gpu-model", "A100")]
    scheduler = call(whole, "GET", "/ws/v1/cluster/scheduler")["scheduler"]["schedulerInfo"]
    assert scheduler["type"] == "fairScheduler"
    assert scheduler["rootQueue"]["schedulingPolicy"] == "DRF"


def test_every_server_listens_on_loopback_only(whole: EmbeddedCluster) -> None:
    inodes = set()
    for process in living_processes(whole.paths):
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            target = str(link.readlink())
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    listening = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                listening.append(fields[1].partition(":")[0])
    assert len(listening) > 20
    for address in listening:
        # The last group of the address, little-endian: 127.a.b.c, also as an IPv6-mapped one.
        assert address.endswith("7F"), address


def test_hadoops_tools_and_a_plain_shell_work_against_it(
    home: Home, whole: EmbeddedCluster
) -> None:
    script = """
        set -eu
        eval "$(yarnam cluster env --name pair)"
        echo hello | hdfs dfs -put -f - /tmp/hello.txt
        hdfs dfs -cat /tmp/hello.txt
        hdfs dfs -stat '%u %a' /tmp /user/"$(id -un)" /app-logs
        hdfs dfsadmin -printTopology | grep -c 'In Service'
        yarn node -list 2>/dev/null | grep -c RUNNING
        yarn classpath --glob | wc -c
        test "$YARNAM_ZOOKEEPER" && test -x "$JAVA_HOME/bin/java"
    """
    path = f"{Path(sys.executable).parent}:{home.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", script],
        env={**home.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=COMMAND_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    hello, tmp, user, logs, datanodes, nodes, length = done.stdout.splitlines()
    me = whole.plan.user
    assert (hello, datanodes, nodes) == ("hello", "2", "2")
    assert (tmp, user, logs) == (f"{me} 1777", f"{me} 755", f"{me} 1777")
    # Skein hands it to a JVM in one string, of which Linux takes 128 KiB.
    assert int(length) < 128 * 1024


def test_datanodes_are_on_the_addresses_and_racks_of_their_nodes(whole: EmbeddedCluster) -> None:
    beans = json.load(
        urllib.request.urlopen(
            f"{whole.plan.namenode_web}/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo",
            timeout=10,
        )
    )["beans"]
    live = json.loads(beans[0]["LiveNodes"])
    assert sorted(node["xferaddr"].partition(":")[0] for node in live.values()) == [
        node.address for node in whole.nodes
    ]


def test_an_append_and_a_read_go_straight_to_the_datanode(whole: EmbeddedCluster) -> None:
    import hdfs_native

    client = hdfs_native.Client(whole.namenode_uri)
    with client.create("/tmp/data.bin") as writer:
        writer.write(b"x" * 3_000_000)
    with client.append("/tmp/data.bin") as writer:
        writer.write(b"end")
    with client.read("/tmp/data.bin") as reader:
        content = reader.read()
    assert (len(content), content[-3:]) == (3_000_003, b"end")


# -- jobs on it -----------------------------------------------------------------------------------


def call(
    cluster: EmbeddedCluster, method: str, path: str, body: object = None, user: str = ""
) -> dict[str, Any]:
    query = f"?user.name={urllib.parse.quote(user)}" if user else ""
    request = urllib.request.Request(
        f"{cluster.rm_url}{path}{query}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Accept": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text else {}


def submit(cluster: EmbeddedCluster, command: str, queue: str = "root.dl", user: str = "") -> str:
    """An application of one container, which never registers as an AM."""
    user = user or cluster.plan.user
    new = call(cluster, "POST", "/ws/v1/cluster/apps/new-application", {}, user)
    app = {
        "application-id": new["application-id"],
        "application-name": "test",
        "queue": queue,
        "am-container-spec": {"commands": {"command": command}},
        "max-app-attempts": 1,
        "resource": {"memory": 256, "vCores": 1},
    }
    call(cluster, "POST", "/ws/v1/cluster/apps", app, user)
    return str(new["application-id"])


def state(cluster: EmbeddedCluster, app: str) -> str:
    return str(call(cluster, "GET", f"/ws/v1/cluster/apps/{app}/state")["state"])


def containers(cluster: EmbeddedCluster) -> dict[int, str]:
    """Pid and command line of what runs beside the daemons."""
    daemons = {cluster.daemon(name).pid for name in cluster.plan.daemons}
    found = {}
    for process in cluster.processes():
        if process.pid not in daemons:
            try:
                line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            except OSError:
                continue
            found[process.pid] = line.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def pid_of(cluster: EmbeddedCluster, line: str) -> int | None:
    return next((pid for pid, found in containers(cluster).items() if found == line), None)


def test_a_container_finds_its_devices_and_its_way(whole: EmbeddedCluster, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    seen = tmp_path / "seen"
    app = submit(whole, f"(env; python3 -c 'import sys; print(sys.executable)') > {seen}; sleep 61")
    wait_until("the container runs", lambda: pid_of(whole, "sleep 61"))
    lines = seen.read_text().splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    assert found["YARNAM_NODE_GPUS"] == "sim:0,1,2,3"
    assert found["YARNAM_NODE_GPU_MODEL"] == "A100"
    assert found["HADOOP_CONF_DIR"] == str(whole.conf_dir)
    assert found["JAVA_HOME"] == str(whole.plan.java_home)
    assert found["HOME"].rstrip("/") == str(whole.paths.container_home)
    assert lines[-1] == sys.executable or Path(lines[-1]).samefile(sys.executable)
    assert sorted(node.containers for node in whole.status().nodes) == [0, 1]

    with pytest.raises(urllib.error.HTTPError) as refusal:
        call(whole, "PUT", f"/ws/v1/cluster/apps/{app}/state", {"state": "KILLED"}, "mallory")
    assert refusal.value.code == 403
    refusal.value.close()
    user = whole.plan.user
    call(whole, "PUT", f"/ws/v1/cluster/apps/{app}/state", {"state": "KILLED"}, user)
    wait_until("the application is killed", lambda: state(whole, app) == "KILLED")
    wait_until("its processes are gone", lambda: not containers(whole))


def test_a_locked_queue_refuses(whole: EmbeddedCluster) -> None:
    for user in (whole.plan.user, "mallory"):
        with pytest.raises(urllib.error.HTTPError) as refusal:
            submit(whole, "sleep 62", "root.locked", user)
        with refusal.value as answer:
            assert "does not have permission to submit" in answer.read().decode()


def test_a_restarted_resource_manager_keeps_its_applications(
    home: Home, whole: EmbeddedCluster
) -> None:
    app = submit(whole, "sleep 63")
    wait_until("the container runs", lambda: pid_of(whole, "sleep 63"))
    before = pid_of(whole, "sleep 63")
    home.run("restart", "--name", "pair", "rm")
    assert state(whole, app) in ("ACCEPTED", "RUNNING")
    assert pid_of(whole, "sleep 63") == before
    user = whole.plan.user
    call(whole, "PUT", f"/ws/v1/cluster/apps/{app}/state", {"state": "KILLED"}, user)
    wait_until("its processes are gone", lambda: not containers(whole))


def test_a_killed_node_is_lost_and_takes_up_its_containers_again(
    home: Home, whole: EmbeddedCluster
) -> None:
    app = submit(whole, "sleep 64")
    wait_until("the container runs", lambda: pid_of(whole, "sleep 64"))
    before = pid_of(whole, "sleep 64")
    (busy,) = [node.name for node in whole.status().nodes if node.containers]
    home.run("restart", "--name", "pair", busy)
    assert pid_of(whole, "sleep 64") == before
    assert state(whole, app) in ("ACCEPTED", "RUNNING")

    home.run("kill", "--name", "pair", busy)
    status = home.run("status", "--name", "pair", "--json", check=False)
    assert status.returncode == ExitCode.UNAVAILABLE
    assert f"{busy} is dead" in json.loads(status.stdout)["problems"]
    lost = lambda: {node.name: node.state for node in whole.status().nodes}[busy] == "LOST"  # noqa: E731
    wait_until("the node is lost", lost)
    wait_until("its application failed", lambda: state(whole, app) in ("FAILED", "KILLED"))
    assert f"{busy} ready after" in home.run("up", *PAIR).stderr
    assert whole.status().is_healthy
    wait_until("the orphan is gone", lambda: not containers(whole))


@pytest.mark.parametrize(
    "daemon",
    ["zk", "nn", "dn1", "relay"],
)
def test_any_daemon_can_die_and_come_back(whole: EmbeddedCluster, daemon: str) -> None:
    whole.daemon(daemon).kill()
    assert whole.daemon(daemon).pid is None
    assert not whole.status().is_healthy
    whole.daemon(daemon).start()
    wait_until("all is well again", lambda: whole.status().is_healthy)


def test_logs_are_named_shown_and_followed(home: Home, whole: EmbeddedCluster) -> None:
    names = home.run("logs", "--name", "pair").stdout
    assert str(whole.paths.log("rm")) in names
    assert len(home.run("logs", "--name", "pair", "rm", "-n", "5").stdout.splitlines()) == 5
    follower = home.start("logs", "--name", "pair", "rm", "-n", "1", "-f")
    assert follower.stdout is not None
    follower.stdout.readline()
    with whole.paths.log("rm").open("a") as log:
        log.write("a line of this test\n")
    try:
        assert any("a line of this test" in line for line in iter(follower.stdout.readline, ""))
    finally:
        follower.send_signal(signal.SIGINT)
        follower.stdout.close()
        follower.wait(30)


# -- how much it costs ----------------------------------------------------------------------------


def test_four_nodes_stay_below_their_memory(cluster: EmbeddedCluster) -> None:
    """The shared cluster, whatever other tests have made it do before."""
    assert cluster.status().resident_mib < FOUR_NODES_LIMIT_MIB


@pytest.mark.benchmark
def test_four_nodes_are_up_in_time(home: Home) -> None:
    """On an otherwise idle machine; the jars are in the cache by now."""
    home.run("up", "--name", "timed", "--quiet")
    home.run("down", "--name", "timed")
    began = time.monotonic()
    home.run("up", "--name", "timed", "--quiet")
    seconds = time.monotonic() - began
    memory = home.cluster("timed").status().resident_mib
    home.run("down", "--name", "timed")
    print(f"\nup: {seconds:.1f} s, {seconds / UP_LIMIT_S:.2f} of the {UP_LIMIT_S:.0f} s allowed")
    print(f"memory: {memory:.0f} MiB, {memory / FOUR_NODES_LIMIT_MIB:.2f} of what is allowed")
    assert seconds < UP_LIMIT_S
    assert memory < FOUR_NODES_LIMIT_MIB


@pytest.mark.gpu
def test_real_gpus_are_handed_to_containers(home: Home) -> None:
    devices = find_physical_gpus()
    assert devices, "this test needs a machine where nvidia-smi finds a GPU"
    home.run("up", "--name", "real", "--nodes", "1", "--racks", "1", "--gpus", "real")
    (node,) = home.cluster("real").nodes
    assert node.device_list == ",".join(str(device.index) for device in devices)
    home.run("down", "--name", "real")


# -- up again, beside others, and down ------------------------------------------------------------


def test_up_on_a_cluster_that_is_up(home: Home, whole: EmbeddedCluster) -> None:
    pids = {name: whole.daemon(name).pid for name in whole.plan.daemons}
    assert "is already up" in home.run("up", *PAIR).stdout
    other = home.run("up", "--name", "pair", "--nodes", "3", check=False)
    assert other.returncode == ExitCode.BAD_CONFIG
    assert "nodes 2, asked for 3" in other.stderr
    assert "yarnam cluster down --name pair" in other.stderr
    assert {name: whole.daemon(name).pid for name in whole.plan.daemons} == pids


def test_two_side_by_side_then_down_and_up_with_the_same_data(
    home: Home, whole: EmbeddedCluster
) -> None:
    shape = ("--name", "single", "--nodes", "1", "--racks", "1", "--no-zookeeper", "--quiet")
    home.run("up", *shape)
    single = home.cluster("single")
    assert single.plan.slot != whole.plan.slot
    assert single.status().is_healthy
    assert whole.status().is_healthy
    put = urllib.request.Request(
        f"{single.plan.namenode_web}/webhdfs/v1/tmp/kept?op=MKDIRS&user.name={single.plan.user}",
        method="PUT",
    )
    urllib.request.urlopen(put, timeout=10).close()
    home.run("down", "--name", "single", "--keep-data")
    assert not living_processes(single.paths)
    assert home.run("status", "--name", "single", check=False).returncode == 69
    home.run("up", *shape)
    kept = f"{single.plan.namenode_web}/webhdfs/v1/tmp/kept?op=GETFILESTATUS"
    urllib.request.urlopen(kept, timeout=10).close()
    home.run("down", "--name", "single")
    assert not single.paths.root.exists()
    assert whole.status().is_healthy


def test_down_ends_runaways_of_containers_too(home: Home, whole: EmbeddedCluster) -> None:
    # One keeps the marker but leaves the session; the other drops every sign but its folder.
    submit(whole, "setsid sleep 65 & env -i setsid /bin/sleep 66 & sleep 67")
    for line in ("sleep 65", "/bin/sleep 66", "sleep 67"):
        wait_until(f"'{line}' runs", lambda line=line: pid_of(whole, line))
    processes = whole.processes()
    assert len(processes) >= len(whole.plan.daemons) + 3
    home.run("down", "--name", "pair")
    assert not [process for process in processes if process.is_alive()]
    assert not whole.paths.root.exists()


# -- starts that fail -----------------------------------------------------------------------------


def started(home: Home, name: str, daemon: str) -> bool:
    record = read_record(home.paths(name).process_record(daemon))
    return record is not None and record.is_alive()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_up_leaves_no_process(home: Home, number: int) -> None:
    name = f"stop-{number}"
    up = home.start("up", "--name", name, "--nodes", "1", "--racks", "1")
    wait_until("a NodeManager was started", lambda: started(home, name, "nm1"))
    up.send_signal(number)
    output, _ = up.communicate(timeout=60)
    assert up.returncode == 128 + signal.SIGINT, output
    assert "taking the cluster down" in output
    assert not living_processes(home.paths(name))
    assert "its start failed" in home.run("env", "--name", name, check=False).stderr


def test_ctrl_c_on_a_terminal_leaves_no_process(home: Home) -> None:
    """The whole foreground group gets the signal, as it does at a keyboard."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(
            YARNAM[0], [*YARNAM, "up", "--name", "tty", "--nodes", "1", "--racks", "1"],
            home.environ,
        )  # fmt: skip
    drain = threading.Thread(target=read_all, args=(terminal,))
    drain.start()
    wait_until("a NodeManager was started", lambda: started(home, "tty", "nm1"))
    os.write(terminal, b"\x03")
    _, status = os.waitpid(pid, 0)
    drain.join()
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGINT
    assert not living_processes(home.paths("tty"))


def read_all(terminal: int) -> None:
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        pass  # the terminal's other end is closed


def test_down_cleans_up_after_an_up_that_was_killed(home: Home) -> None:
    up = home.start("up", "--name", "crash", "--nodes", "1", "--racks", "1")
    wait_until("a NodeManager was started", lambda: started(home, "crash", "nm1"))
    up.kill()
    up.communicate()
    assert living_processes(home.paths("crash"))
    home.run("down", "--name", "crash")
    assert not living_processes(home.paths("crash"))
    assert not home.paths("crash").root.exists()


def test_down_stops_an_up_at_work(home: Home) -> None:
    up = home.start("up", "--name", "cancel", "--nodes", "1", "--racks", "1")
    wait_until("a NodeManager was started", lambda: started(home, "cancel", "nm1"))
    home.run("down", "--name", "cancel")
    output, _ = up.communicate(timeout=60)
    assert up.returncode == ExitCode.CANCELLED, output
    assert not living_processes(home.paths("cancel"))
    assert not home.paths("cancel").root.exists()


def test_a_daemon_that_fails_is_told_with_its_last_words(home: Home, tmp_path: Path) -> None:
    queues = tmp_path / "queues.xml"
    queues.write_text(
        '<allocations><queue name="a"><maxResources>eight cores</maxResources></queue>'
        "</allocations>"
    )
    began = time.monotonic()
    up = home.run("up", "--name", "bad", "--nodes", "1", "--racks", "1", "--queues", str(queues),
                  check=False)  # fmt: skip
    assert up.returncode == ExitCode.UNAVAILABLE
    assert "ResourceManager (rm) exited" in up.stderr
    assert "Cannot parse resource values from input: eight cores" in up.stderr
    assert str(home.paths("bad").log("rm")) in up.stderr
    assert home.paths("bad").log("rm").exists()
    # Told when it happens, not when a limit has passed.
    assert time.monotonic() - began < 60
    assert not living_processes(home.paths("bad"))


def test_a_port_that_is_taken_meanwhile_costs_a_second_start(home: Home, tmp_path: Path) -> None:
    """Between choosing a port and listening on it, anybody may take it."""
    java = find_java(cache_dir())
    fake = tmp_path / "java" / "bin" / "java"
    fake.parent.mkdir(parents=True)
    fake.write_text(
        f"""#!/bin/bash
        case "$*" in *ResourceManager*)
          if mkdir {tmp_path}/once; then
            echo 'java.net.BindException: Problem binding: Address already in use'; exit 1
          fi ;;
        esac
        exec {java.executable} "$@"
        """
    )
    fake.chmod(0o755)
    environ = {**home.environ, "JAVA_HOME": str(tmp_path / "java")}
    up = Home(environ).run("up", "--name", "ports", "--nodes", "1", "--racks", "1")
    assert "a port was taken in the meantime" in up.stderr
    assert home.cluster("ports").status().is_healthy
    home.run("down", "--name", "ports")
