"""The storm's network: jobs reach the NameNode, DataNodes, ZooKeeper and their AM through
relays of this process, which stall, cut and slow connections. And what else a node has of its own:
the Python that leads its agents to the relay, and a clock that may be off (``storm_python``)."""

from __future__ import annotations

import random
import shutil
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from hdfs_utils.config.configuration import read_properties
from tests.integration.tcp_relay import DOWN, UP, TcpRelay
from yarnam.adapters.yarn.addresses import ZOOKEEPER_VARIABLE
from yarnam.client.site import NODE_PYTHON_VARIABLE

if TYPE_CHECKING:
    from tests.integration.ha_hdfs import HaHdfs
    from yarnam.cluster import EmbeddedCluster

SLOW_S = (0.02, 0.3)

PAIR_DATANODE_HOST = "127.0.0.2"
"""The name of the pair's DataNode: a relay has its ports there."""

DATA_PORTS = ("datanode", "datanode_web")
"""Of data transfer and of WebHDFS."""


def named_for_relay(cluster: EmbeddedCluster, name: str = "dn1") -> str:
    """The host that a DataNode now gives as its own: another address of its node, where a relay can
    have the same ports. Hadoop lets a DataNode tell a host name of its own, and no port."""
    host = cluster.plan.datanodes[name].address.rpartition(".")[0] + ".201"
    daemon = cluster.daemon(name)
    daemon.stop()
    change_properties(
        cluster.paths.daemon_conf(name) / "hdfs-site.xml", {"dfs.datanode.hostname": host}
    )
    daemon.start()
    return host


def change_properties(path: Path, changes: dict[str, str]) -> None:
    found = {each.name: each.value for each in read_properties(path)} | changes
    rows = "".join(
        f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
        for key, value in found.items()
    )
    path.write_text(f"<configuration>\n{rows}</configuration>\n")


class AmRelays:
    """One for each address of an ApplicationMaster, made when its first agent asks for it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._relays: dict[tuple[str, str], TcpRelay] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def of(self, application: str) -> list[TcpRelay]:
        number = application.removeprefix("application")
        with self._lock:
            return [relay for (name, _), relay in self._relays.items() if name == number]

    def end(self, application: str) -> None:
        """Of a job that is over."""
        number = application.removeprefix("application")
        with self._lock:
            over = [key for key in self._relays if key[0] == number]
            relays = [self._relays.pop(key) for key in over]
        for relay in relays:
            relay.close()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            relays = list(self._relays.values())
        for relay in relays:
            relay.close()

    def _accept(self) -> None:
        while True:
            try:
                agent, _ = self._listener.accept()
            except OSError:
                return
            with agent, suppress(OSError, ValueError):
                agent.settimeout(5)
                container, target = agent.makefile().readline().split()
                number = "_" + "_".join(container.split("_")[-4:-2])
                with self._lock:
                    key = (number, target)
                    if key not in self._relays:
                        self._relays[key] = TcpRelay(target)
                    agent.sendall(f"{self._relays[key].address}\n".encode())


class StormNet:
    """``conf`` is the client's configuration, which travels with each job, and ``variables`` are of
    its environment. The cluster's own daemons go by their own files, and meet no relay."""

    def __init__(self, cluster: EmbeddedCluster, folder: Path, pair: HaHdfs) -> None:
        assert cluster.zookeeper is not None
        self.folder = folder
        self.namenode = TcpRelay(cluster.namenode_uri.removeprefix("hdfs://"))
        self.zookeeper = TcpRelay(cluster.zookeeper)
        self.datanodes = _data_relays(cluster, pair)
        self.masters = AmRelays()
        self.conf = folder / "conf"
        shutil.copytree(cluster.conf_dir, self.conf)
        change_properties(
            self.conf / "core-site.xml", {"fs.defaultFS": f"hdfs://{self.namenode.address}"}
        )
        self.variables = {ZOOKEEPER_VARIABLE: self.zookeeper.address}
        change_properties(
            self.conf / "hdfs-site.xml",
            {"dfs.client.use.datanode.hostname": "true", **pair.client_properties()},
        )
        self.clocks = folder / "clocks"
        self.clocks.mkdir()
        (folder / "relays").write_text(self.masters.address)
        self.python = folder / Path(sys.executable).resolve().name
        self._write_python()
        self.variables[NODE_PYTHON_VARIABLE] = str(self.python)

    def close(self) -> None:
        for each in (self.namenode, *self.datanodes, self.zookeeper, self.masters):
            each.close()

    def relays_to(self, server: str) -> list[TcpRelay]:
        """``server``: zookeeper, namenode or datanodes."""
        found = {"zookeeper": [self.zookeeper], "namenode": [self.namenode]}
        return found.get(server, self.datanodes)

    def always_used(self) -> list[TcpRelay]:
        """All but those of WebHDFS, which a client turns to where RPC fails."""
        web = len(DATA_PORTS)
        return [self.zookeeper, self.namenode, *self.datanodes[::web]]

    def _write_python(self) -> None:
        """Given are the interpreter's flags, ``-c``, the code, the library and the module."""
        script = Path(__file__).with_name("storm_python.py")
        self.python.write_text(
            f'#!/bin/bash\nexec {sys.executable} -I -S -B -u {script} {self.folder} "${{@: -2}}"\n'
        )
        self.python.chmod(0o755)


def _data_relays(cluster: EmbeddedCluster, pair: HaHdfs) -> list[TcpRelay]:
    """To the cluster's DataNode and to the pair's, each with the port of its target."""
    own = cluster.plan.datanodes["dn1"].address
    host = named_for_relay(cluster)
    ports = [cluster.plan.ports[name] for name in DATA_PORTS]
    relays = [TcpRelay(f"{own}:{port}", port, host) for port in ports]
    for target in (pair.at("dn"), pair.at("dn-web")):
        relays.append(TcpRelay(target, int(target.rpartition(":")[2]), pair.datanode_host))
    return relays


def harm(how: str, dice: random.Random) -> tuple[str, Callable[[TcpRelay], None]]:
    """``how`` is cut, stall or slow; what that is in words, and what does it."""
    directions = dice.choice(((UP,), (DOWN,), (UP, DOWN)))
    delay_s = dice.uniform(*SLOW_S)
    if how == "cut":
        return how, TcpRelay.cut
    told = f"{how} {' and '.join(directions)}"
    if how == "stall":
        return told, lambda relay: relay.stall(directions)
    return f"{told}, {delay_s:.2f} s", lambda relay: relay.slow(delay_s, directions)
