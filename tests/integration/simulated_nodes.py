"""Many nodes without NodeManagers for a real ResourceManager, and applications that never start."""

from __future__ import annotations

import queue
import shutil
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from yarnam.cluster.hadoop.daemon_commands import jar_files

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster
    from yarnam.core.model.resources import Resources

SOURCE = Path(__file__).parent / "java" / "SimulatedNodes.java"
ANSWER_S = 60.0


class SimulatedNodes:
    """The program that is all nodes (``java/SimulatedNodes.java``, compiled here: it needs
    ``javac``). They are registered, and send heartbeats when they are told to."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        folder: Path,
        count: int,
        size: Resources,
        heartbeat_ms: int,
    ) -> None:
        javac = shutil.which("javac")
        if javac is None:
            pytest.skip("there is no javac to compile the simulated nodes with")
        jars = [str(jar) for jar in jar_files(cluster.plan)]
        subprocess.run(
            [javac, "--release", "8", "-Xlint:-options", "-cp", ":".join(jars), "-d", str(folder),
             str(SOURCE)], check=True,
        )  # fmt: skip
        class_path = ":".join([str(folder), str(cluster.conf_dir), *jars])
        numbers = (count, size.memory_mib, size.vcores, size.gpus, heartbeat_ms)
        self._stderr = folder / "stderr"
        self._errors = self._stderr.open("w")
        java = str(cluster.plan.java_home / "bin" / "java")
        self._process = subprocess.Popen(
            [java, "-Xmx512m", "-XX:+UseSerialGC", "-cp", class_path, "SimulatedNodes",
             *map(str, numbers)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
            env=cluster.environ(),
        )  # fmt: skip
        self.delays: list[float] = []
        """From an ask to its grant, in milliseconds."""
        self._answers: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self._answer("nodes", ANSWER_S)

    def send_heartbeats(self) -> None:
        """From now on containers are granted on them."""
        self._tell("heartbeat")

    def submit(self, queue_name: str, am: Resources) -> str:
        """An application whose ApplicationMaster needs so much, and never starts: its id."""
        self._tell(f"submit {queue_name} {am.memory_mib} {am.vcores} {am.gpus}")
        return self._answer("submitted", ANSWER_S)

    def ask(self, queue_name: str, limit_s: float) -> None:
        """An application holds all GPUs, and asks for a small container from then on."""
        self._tell(f"ask {queue_name}")
        self._answer("full", limit_s)

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _answer(self, word: str, limit_s: float) -> str:
        try:
            said, value = self._answers.get(timeout=limit_s)
        except queue.Empty:
            said, value = "nothing", self._stderr.read_text()[-4000:]
        assert said == word, (said, value)
        return value

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, _, value = line.rstrip("\n").partition(" ")
            if word == "delay":
                self.delays.append(float(value))
            else:
                self._answers.put((word, value))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30.0)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()
