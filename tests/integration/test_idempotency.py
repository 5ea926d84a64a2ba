"""Idempotency keys on the real cluster: the answer lost, and several submits at a time."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integration.submit_world import SubmitWorld
from yarnam import Client
from yarnam.client.submit.idempotency import IdempotencyKey
from yarnam.cluster import EmbeddedCluster

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs]

SUBMITTERS = 4


class LosesTheAnswer:
    """A proxy in front of the ResourceManager's REST API. It hands one application in; from then on
    nobody hears anything through it, until ``mend``: the job's AM comes this way too."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.is_cut = threading.Event()
        self.has_lost = False
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        """One request for each connection, which is what yarnam's client does."""
        with client, suppress(OSError):
            if self.is_cut.is_set():
                return
            request = _read_request(client)
            with socket.create_connection(self._target) as server:
                server.sendall(request)
                if request.startswith(b"POST /ws/v1/cluster/apps?") and not self.has_lost:
                    server.recv(1)  # YARN has taken it.
                    self.has_lost = True
                    self.is_cut.set()
                    return
                while data := server.recv(65536):
                    client.sendall(data)

    def mend(self) -> None:
        self.is_cut.clear()

    def close(self) -> None:
        self._listener.close()


def _read_request(client: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += client.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [
        int(line.partition(b":")[2])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length")
    ]
    while len(body) < sum(lengths):
        body += client.recv(65536)
    return head + b"\r\n\r\n" + body


@pytest.fixture
def lossy(
    submit_world: SubmitWorld, cluster: EmbeddedCluster, tmp_path: Path
) -> Iterator[tuple[LosesTheAnswer, Path]]:
    """A proxy, and a Hadoop configuration that reaches the ResourceManager through it."""
    real = cluster.rm_url.partition("://")[2]
    proxy = LosesTheAnswer(real)
    conf = tmp_path / "lossy-conf"
    shutil.copytree(cluster.conf_dir, conf)
    site = conf / "yarn-site.xml"
    text = site.read_text()
    assert real in text
    site.write_text(text.replace(real, proxy.address))
    yield proxy, conf
    assert proxy.has_lost
    proxy.close()


@pytest.mark.long
def test_a_lost_answer_starts_no_second_job(
    submit_world: SubmitWorld, lossy: tuple[LosesTheAnswer, Path], unique_name: Any
) -> None:
    proxy, conf = lossy
    key = unique_name("key")
    spec = submit_world.spec(unique_name("lost"), "sleep 5")
    options = ("--detach", "--idempotency-key", key)
    lost = submit_world.run(
        "submit", spec, *options, HADOOP_CONF_DIR=str(conf), YARNAM_SUBMIT="rest"
    )
    assert lost.code == 69, lost.err
    proxy.mend()
    found = submit_world.run("submit", spec, *options)
    assert found.code == 0, found.err
    application = found.out.strip()
    again = submit_world.run("submit", spec, "--watch", "--idempotency-key", key)
    assert again.code == 0, again.err
    assert application in again.err, "it is said which job it is"
    with Client(submit_world.conf_dir) as client:
        tag = IdempotencyKey(client.site, key).tag
        (only,) = client.site.rm.applications(tags=[tag])
    assert only.application == application
    assert only.final_status == "SUCCEEDED"


def test_of_several_submits_at_a_time_one_starts_the_job(
    submit_world: SubmitWorld, unique_name: Any
) -> None:
    key = unique_name("key")
    spec = submit_world.spec(unique_name("race"), "true")
    barrier = threading.Barrier(SUBMITTERS)

    def submit(_: int) -> str:
        with Client(submit_world.conf_dir) as client:
            barrier.wait()
            job = client.submit(spec, idempotency_key=key)
            assert job.wait().exit_code == 0
            return job.id

    with ThreadPoolExecutor(SUBMITTERS) as pool:
        found = set(pool.map(submit, range(SUBMITTERS)))
    with Client(submit_world.conf_dir) as client:
        tag = IdempotencyKey(client.site, key).tag
        (only,) = client.site.rm.applications(tags=[tag])
    assert found == {only.application}
