"""A gateway as Apache Knox is one, over HTTPS: one address, HTTP Basic, paths of its own, HDFS and
a ResourceManager behind it. What is behind exists in memory; no other address is there at all."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from hdfs_utils import HdfsError
from hdfs_utils import errors as hdfs
from tests.fakes.files import MemoryFiles
from yarnam.cluster.hadoop.cluster_tls import make_stores

PREFIX = "/gateway/prod"
HDFS = f"{PREFIX}/webhdfs/v1"
DATA = f"{PREFIX}/webhdfs/data/v1/webhdfs/v1"
RM = f"{PREFIX}/resourcemanager"

_JAVA = {
    hdfs.NotFound: "java.io.FileNotFoundException",
    hdfs.AlreadyExists: "org.apache.hadoop.fs.FileAlreadyExistsException",
}


class FrontDoor:
    """``pages``: what the ResourceManager has, by path below ``/ws``. ``asked``: method and path of
    each request; ``signed_in``: its Authorization. ``data_at``: where redirects lead, by default
    to itself."""

    def __init__(self, folder: Path, name: str = "alice", password: str = "s3cret") -> None:
        self.files = MemoryFiles()
        self.pages: dict[str, Any] = {}
        self.asked: list[tuple[str, str]] = []
        self.signed_in: list[str] = []
        self.data_at = ""
        self.hdfs_token: Callable[[str], str] = lambda _: ""
        self.accepted = "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()
        self._folder = folder
        self.url = ""
        self.authority = ""

    @contextmanager
    def open(self) -> Iterator[FrontDoor]:
        store, authority = make_stores(["127.0.0.1"], "p")
        key, certificate, _ = pkcs12.load_key_and_certificates(store, b"p")
        assert key is not None
        assert certificate is not None
        self.authority = (
            x509.load_der_x509_certificate(authority).public_bytes(Encoding.PEM).decode()
        )
        pem = self._folder / "front-door.pem"
        pem.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + certificate.public_bytes(Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        with _Server(("127.0.0.1", 0), type("Own", (_Handler,), {"door": self})) as server:
            server.socket = context.wrap_socket(server.socket, server_side=True)
            self.url = f"https://127.0.0.1:{server.server_address[1]}{PREFIX}"
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that has gone away."""


class _Handler(BaseHTTPRequestHandler):
    door: FrontDoor
    protocol_version = "HTTP/1.1"

    def _any(self) -> None:
        body = self._body()
        self.door.asked.append((self.command, self.path))
        self.door.signed_in.append(self.headers.get("Authorization", ""))
        if self.headers.get("Authorization") != self.door.accepted:
            self._reply(401, b"<html>who are you?</html>")
            return
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        try:
            if parts.path.startswith(RM):
                self._rm(parts.path.removeprefix(RM))
            elif parts.path.startswith(DATA):
                self._data(unquote(parts.path.removeprefix(DATA)), query, body)
            elif parts.path.startswith(HDFS):
                self._hdfs(unquote(parts.path.removeprefix(HDFS)) or "/", query)
            else:
                self._reply(404, b"<html>no such topology</html>")
        except HdfsError as error:
            java = next((j for kind, j in _JAVA.items() if isinstance(error, kind)), "X")
            name = java.rpartition(".")[2]
            remote = {"exception": name, "javaClassName": java, "message": error.message}
            self._reply(404, json.dumps({"RemoteException": remote}).encode())

    do_GET = do_PUT = do_POST = do_DELETE = _any  # noqa: N815 - names of http.server

    def _rm(self, path: str) -> None:
        found = self.door.pages.get(path)
        if found is None:
            self._reply(404, b'{"RemoteException": {"message": "not found"}}')
        else:
            self._reply(200, json.dumps(found).encode())

    def _hdfs(self, path: str, query: dict[str, str]) -> None:
        files, operation = self.door.files, query["op"]
        if operation in ("OPEN", "CREATE", "APPEND"):
            base = self.door.data_at or f"https://{self.headers['Host']}"
            self.send_response(307)
            rest = self.path.partition(HDFS)[2]
            self.send_header("Location", f"{base}{DATA}{rest}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        answer: dict[str, Any] = {}
        if operation == "GETFILESTATUS":
            answer = {"FileStatus": _row(files.stat(path))}
        elif operation == "LISTSTATUS":
            answer = {"FileStatuses": {"FileStatus": [_row(f) for f in files.list(path)]}}
        elif operation == "MKDIRS":
            files.mkdirs(path)
        elif operation == "DELETE":
            answer = {"boolean": files.delete(path, recursive=True)}
        elif operation == "GETDELEGATIONTOKEN":
            answer = {"Token": {"urlString": self.door.hdfs_token(query["renewer"])}}
        elif operation == "RENAME":
            is_replaced = query.get("renameoptions") == "OVERWRITE"
            files.rename(path, query["destination"], is_replaced)
        self._reply(200, json.dumps(answer).encode())

    def _data(self, path: str, query: dict[str, str], body: bytes) -> None:
        if query["op"] == "CREATE":
            self.door.files.write_bytes(path, body, overwrite=True)
            self._reply(201, b"")
            return
        offset = int(query.get("offset", 0))
        content = self.door.files.read_bytes(path)[offset:]
        self._reply(200, content[: int(query.get("length", len(content)))])

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def _row(status: Any) -> dict[str, Any]:
    return {
        "pathSuffix": status.path.rpartition("/")[2],
        "length": status.length,
        "type": "DIRECTORY" if status.is_dir else "FILE",
        "modificationTime": status.mtime_ms,
        "owner": status.owner,
        "group": status.group,
        "permission": f"{status.permission:o}",
        "replication": status.replication,
        "blockSize": status.block_size,
    }
