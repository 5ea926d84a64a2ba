"""A pair of NameNodes that share a journal, as production has them: real daemons, own folder."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from yarnam.cluster.hadoop.daemon_commands import LEAN, OPENS

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

NAME = "pair"
START_LIMIT_S = 120.0
_SERVER = "org.apache.hadoop.hdfs"
FAILOVER = f"{_SERVER}.server.namenode.ha.ConfiguredFailoverProxyProvider"
_MAIN = {
    "jn": f"{_SERVER}.qjournal.server.JournalNode",
    "nn1": f"{_SERVER}.server.namenode.NameNode",
    "nn2": f"{_SERVER}.server.namenode.NameNode",
    "dn": f"{_SERVER}.server.datanode.DataNode",
}
_PORTS = (
    "jn", "jn-web", "nn1", "nn1-web", "nn2", "nn2-web", "dn", "dn-web", "dn-ipc",
)  # fmt: skip


class HaHdfs:
    """``nn1`` and ``nn2`` on one JournalNode, with one DataNode.

    ``software`` is a cluster whose Java and jars are used. ``datanode_host``: by which the
    NameNodes name the DataNode to clients that want its host name, and over HTTP to all.
    """

    def __init__(
        self, software: EmbeddedCluster, folder: Path, datanode_host: str = "127.0.0.1"
    ) -> None:
        plan = software.plan
        self.folder = folder
        self.datanode_host = datanode_host
        self.conf = folder / "conf"
        self._java = str(plan.java_home / "bin" / "java")
        jars = sorted(str(jar) for jar in plan.jar_folder.glob("*.jar"))
        self._class_path = ":".join([str(self.conf), str(folder / "web"), *jars])
        self._ports = _free_ports(_PORTS)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for each in ("hdfs", "datanode", "journal"):
            (folder / "web" / "webapps" / each).mkdir(parents=True)
        self.conf.mkdir()
        _write(self.conf / "core-site.xml", {
            "fs.defaultFS": f"hdfs://{NAME}",
            "hadoop.tmp.dir": str(folder / "tmp"),
        })  # fmt: skip
        _write(self.conf / "hdfs-site.xml", self._hdfs_site())

    def at(self, name: str) -> str:
        return f"127.0.0.1:{self._ports[name]}"

    def _hdfs_site(self) -> dict[str, str]:
        return {
            "dfs.nameservices": NAME,
            f"dfs.ha.namenodes.{NAME}": "nn1,nn2",
            f"dfs.namenode.rpc-address.{NAME}.nn1": self.at("nn1"),
            f"dfs.namenode.rpc-address.{NAME}.nn2": self.at("nn2"),
            f"dfs.namenode.http-address.{NAME}.nn1": self.at("nn1-web"),
            f"dfs.namenode.http-address.{NAME}.nn2": self.at("nn2-web"),
            f"dfs.client.failover.proxy.provider.{NAME}": FAILOVER,
            "dfs.namenode.shared.edits.dir": f"qjournal://{self.at('jn')}/{NAME}",
            "dfs.journalnode.rpc-address": self.at("jn"),
            "dfs.journalnode.http-address": self.at("jn-web"),
            "dfs.journalnode.edits.dir": str(self.folder / "journal"),
            "dfs.ha.fencing.methods": "shell(/bin/true)",
            "dfs.ha.tail-edits.period": "1s",
            "dfs.replication": "1",
            "dfs.namenode.safemode.extension": "0",
            "dfs.heartbeat.interval": "1",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.datanode.data.dir": f"file://{self.folder / 'dn'}",
            "dfs.datanode.hostname": self.datanode_host,
            "dfs.datanode.address": self.at("dn"),
            "dfs.datanode.http.address": self.at("dn-web"),
            "dfs.datanode.ipc.address": self.at("dn-ipc"),
            "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
        }

    def client_properties(self) -> dict[str, str]:
        """What a client of another HDFS adds to its configuration to reach this one too."""
        wanted = ("dfs.nameservices", "dfs.ha.", "dfs.namenode.rpc-", "dfs.namenode.http-")
        site = self._hdfs_site().items()
        own = {key: value for key, value in site if key.startswith(wanted)}
        return own | {f"dfs.client.failover.proxy.provider.{NAME}": FAILOVER}

    def _command(self, main: str, *arguments: str) -> list[str]:
        return [
            self._java,
            "-Xmx256m",
            *LEAN,
            *OPENS,
            "-Djava.net.preferIPv4Stack=true",
            main,
            *arguments,
        ]

    def _environ(self) -> dict[str, str]:
        return {**os.environ, "CLASSPATH": self._class_path, "HADOOP_CONF_DIR": str(self.conf)}

    def _own(self, daemon: str) -> list[str]:
        """Which of the two a NameNode is, and where it keeps its image."""
        if not daemon.startswith("nn"):
            return []
        image = f"dfs.namenode.name.dir=file://{self.folder / daemon}"
        return ["-D", f"dfs.ha.namenode.id={daemon}", "-D", image]

    def run(self, main: str, *arguments: str) -> str:
        """A command to its end; its output."""
        done = subprocess.run(
            self._command(main, *arguments),
            env=self._environ(), capture_output=True, text=True, timeout=START_LIMIT_S,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def start(self, daemon: str) -> None:
        with (self.folder / f"{daemon}.log").open("ab") as log:
            self.processes[daemon] = subprocess.Popen(
                self._command(_MAIN[daemon], *self._own(daemon)),
                env=self._environ(), stdout=log, stderr=log,
            )  # fmt: skip
        self._await_page(daemon)

    def _await_page(self, daemon: str) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            try:
                with urllib.request.urlopen(f"http://{self.at(f'{daemon}-web')}/jmx", timeout=5):
                    return
            except OSError:
                log = (self.folder / f"{daemon}.log").read_text(errors="replace")
                assert self.processes[daemon].poll() is None, log[-3000:]
                assert time.monotonic() < deadline, log[-3000:]
                time.sleep(0.1)

    def await_data_node(self) -> None:
        """Until both know it: the standby has to when it takes over."""
        deadline = time.monotonic() + START_LIMIT_S
        query = "jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        for daemon in ("nn1", "nn2"):
            live = 0
            while not live:
                assert time.monotonic() < deadline, f"{daemon} knows no DataNode"
                url = f"http://{self.at(f'{daemon}-web')}/{query}"
                with urllib.request.urlopen(url, timeout=5) as reply:
                    live = json.load(reply)["beans"][0]["NumLiveDataNodes"]
                time.sleep(0.05)

    def kill(self, daemon: str) -> None:
        process = self.processes.pop(daemon)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def make_active(self, daemon: str) -> None:
        other = "nn1" if daemon == "nn2" else "nn2"
        admin = f"{_SERVER}.tools.DFSHAAdmin"
        if other in self.processes:
            self.run(admin, "-transitionToStandby", other)
            self.run(admin, "-transitionToActive", daemon)
        else:
            # The tool would ask the dead one first.
            self.run(admin, "-transitionToActive", "--forceactive", daemon)


@contextmanager
def ha_hdfs(
    software: EmbeddedCluster, folder: Path, datanode_host: str = "127.0.0.1"
) -> Iterator[HaHdfs]:
    """``nn1`` is active."""
    pair = HaHdfs(software, folder, datanode_host)
    with ExitStack() as stack:
        stack.callback(lambda: [pair.kill(name) for name in list(pair.processes)])
        pair.start("jn")
        pair.run(_MAIN["nn1"], *pair._own("nn1"), "-format", "-nonInteractive")
        pair.start("nn1")
        pair.run(_MAIN["nn2"], *pair._own("nn2"), "-bootstrapStandby", "-nonInteractive")
        pair.start("nn2")
        pair.start("dn")
        pair.await_data_node()
        pair.make_active("nn1")
        yield pair


def _write(path: Path, properties: Mapping[str, str]) -> None:
    rows = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in properties.items()
    )
    path.write_text(f"<configuration>\n{rows}</configuration>\n")


def _free_ports(names: tuple[str, ...]) -> dict[str, int]:
    with ExitStack() as stack:
        sockets = {name: stack.enter_context(socket.socket()) for name in names}
        for each in sockets.values():
            each.bind(("127.0.0.1", 0))
        return {name: each.getsockname()[1] for name, each in sockets.items()}
