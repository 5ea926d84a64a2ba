"""A rename through an HttpFS, which ignores the options and says false where HDFS raises."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

import pytest

from hdfs_utils import errors
from hdfs_utils.backends.webhdfs import WebHdfsFileSystem
from hdfs_utils.filesystem import TimeLimits
from hdfs_utils.protocols.untrusted import Record, decode_record

T = TypeVar("T")


class Server:
    """Answers as a NameNode does, or as an HttpFS in front of it."""

    def __init__(self, *, is_httpfs: bool) -> None:
        self.is_httpfs = is_httpfs
        self.files = {"/d/a": b"a", "/d/b": b"b"}
        self.renames: list[tuple[str, dict[str, str]]] = []

    def request(self, verb: str, operation: str, path: str, **arguments: str) -> bytes:
        if operation == "GETFILESTATUS":
            return self._status(path)
        assert (verb, operation) == ("PUT", "RENAME")
        self.renames.append((path, arguments))
        target = arguments["destination"]
        is_there, replaces = target in self.files, arguments.get("renameoptions") == "OVERWRITE"
        if self.is_httpfs:
            done = path in self.files and not is_there
        elif path not in self.files:
            raise errors.NotFound("no such file", path=path)
        elif is_there and not replaces:
            raise errors.AlreadyExists("exists", path=target)
        else:
            done = True
        if done:
            self.files[target] = self.files.pop(path)
        return json.dumps({"boolean": done}).encode() if self.is_httpfs else b""

    def _status(self, path: str) -> bytes:
        if path != "/d" and path not in self.files:
            raise errors.NotFound("no such file", path=path)
        row = {
            "length": 1, "type": "DIRECTORY" if path == "/d" else "FILE", "modificationTime": 1,
            "owner": "o", "group": "g", "permission": "644", "replication": 1, "blockSize": 1,
        }  # fmt: skip
        return json.dumps({"FileStatus": row}).encode()

    def ask(self, read: Callable[[Record], T], *request: str, **arguments: str) -> T:
        return read(decode_record(self.request(*request, **arguments), max_bytes=1000))


def opened(*, is_httpfs: bool) -> tuple[Server, WebHdfsFileSystem]:
    server = Server(is_httpfs=is_httpfs)
    return server, WebHdfsFileSystem(server, "webhdfs://h:1", TimeLimits())  # type: ignore[arg-type]


def test_a_name_node_is_asked_once_whether_it_knows_the_options() -> None:
    server, fs = opened(is_httpfs=False)
    fs.rename("/d/a", "/d/b", overwrite=True)
    assert server.files == {"/d/b": b"a"}
    fs.rename("/d/b", "/d/c")
    assert server.files == {"/d/c": b"a"}
    first, *others = server.renames
    assert first[0] not in {"/d/a", "/d/b"}
    assert [path for path, _ in others] == ["/d/a", "/d/b"]


def test_an_httpfs_replaces_nothing_and_says_so() -> None:
    server, fs = opened(is_httpfs=True)
    with pytest.raises(errors.NotSupported, match="an HttpFS cannot replace what is there"):
        fs.rename("/d/a", "/d/b", overwrite=True)
    with pytest.raises(errors.AlreadyExists):
        fs.rename("/d/a", "/d/b")
    assert server.files == {"/d/a": b"a", "/d/b": b"b"}
    fs.rename("/d/a", "/d/c", overwrite=True)
    assert server.files == {"/d/b": b"b", "/d/c": b"a"}
    for source, target in (("/d/none", "/d/e"), ("/d/b", "/none/e")):
        with pytest.raises(errors.NotFound):
            fs.rename(source, target)
