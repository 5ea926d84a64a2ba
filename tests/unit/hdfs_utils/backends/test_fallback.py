"""When WebHDFS may take the native client's place: never where that goes round encryption."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import hdfs_utils
from hdfs_utils.backends.connect import HdfsSite
from hdfs_utils.errors import HdfsError, NotSupported, Unavailable
from hdfs_utils.filesystem import FileSystem, TimeLimits
from hdfs_utils.uri import parse

PRIVATE = [
    {"dfs.encrypt.data.transfer": "true"},
    {"dfs.encrypt.data.transfer": " TRUE"},
    {"dfs.data.transfer.protection": "privacy"},
    {"dfs.data.transfer.protection": "authentication,integrity"},
    {"hadoop.security.authentication": "kerberos"},
    {"hadoop.security.authentication": "KERBEROS"},
]


class Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that has gone away."""


class Listening(BaseHTTPRequestHandler):
    """A NameNode's HTTP side; remembers that it was asked."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = b'{"FileStatus": {"type": "DIRECTORY", "length": 0, "modificationTime": 0,'
        body += b' "owner": "o", "group": "g", "permission": "755", "replication": 0,'
        body += b' "blockSize": 0}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def site() -> Iterator[tuple[dict[str, str], list[str]]]:
    """A site whose RPC is refused, as by a reset on the way, and whose HTTP answers."""

    class Own(Listening):
        asked: list[str] = []  # noqa: RUF012 - of this one server

    with socket.create_server(("127.0.0.1", 0)) as closed:
        rpc = f"127.0.0.1:{closed.getsockname()[1]}"
    with Server(("127.0.0.1", 0), Own) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        http = f"127.0.0.1:{server.server_address[1]}"
        yield {"fs.defaultFS": f"hdfs://{rpc}", "dfs.namenode.http-address": http}, Own.asked
        server.shutdown()
        thread.join(5)


def open_site(conf: dict[str, str], **more: str) -> FileSystem:
    return hdfs_utils.connect(conf={**conf, **more}, timeout_s=0.3)


def test_in_the_open_another_way_is_taken(site: tuple[dict[str, str], list[str]]) -> None:
    fs = hdfs_utils.connect(conf=site[0], timeout_s=2)
    assert fs.stat("/").is_dir
    assert fs.backend == "webhdfs"
    assert site[1]


@pytest.mark.parametrize("private", PRIVATE)
def test_a_break_sends_nothing_round_the_encryption(
    site: tuple[dict[str, str], list[str]], private: dict[str, str]
) -> None:
    fs = open_site(site[0], **private)
    for call in (
        lambda: fs.stat("/"),
        lambda: fs.read_bytes("/a"),
        lambda: fs.write_bytes("/a", b"secret"),
    ):
        with pytest.raises(HdfsError, match="WebHDFS is not asked instead") as caught:
            call()
        assert caught.value.message.count("HTTPS_ONLY") == 1
    broken = Unavailable("a DataNode was reset")
    assert not fs.give_up_on(broken)
    assert "HTTPS_ONLY" in str(broken)
    assert site[1] == []


@pytest.mark.parametrize("private", PRIVATE)
def test_over_tls_it_may(site: tuple[dict[str, str], list[str]], private: dict[str, str]) -> None:
    policy = {"dfs.http.policy": "HTTPS_ONLY", "dfs.namenode.https-address": "127.0.0.1:1"}
    fs = open_site(site[0], **private, **policy)
    with pytest.raises(HdfsError) as caught:
        fs.stat("/")
    assert "not asked instead" not in str(caught.value)


@pytest.mark.parametrize("private", PRIVATE)
def test_content_that_the_native_client_cannot_read_does_not_come_in_the_clear_either(
    site: tuple[dict[str, str], list[str]], private: dict[str, str]
) -> None:
    target = parse(site[0]["fs.defaultFS"])
    properties = {**site[0], **private}
    native = HdfsSite(target, properties, None, None, TimeLimits.all(1)).native()
    with pytest.raises(NotSupported, match="go round the encryption"):
        native.report_replicas("/a", 0, 1)
    assert site[1] == []


def test_who_chooses_http_gets_it(site: tuple[dict[str, str], list[str]]) -> None:
    fs = hdfs_utils.connect(conf={**site[0], **PRIVATE[0]}, timeout_s=2, backend="webhdfs")
    assert fs.stat("/").is_dir
