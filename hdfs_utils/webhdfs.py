"""The NameNode's HTTP side (WebHDFS), for the questions that the native client cannot ask."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from hdfs_utils import errors
from hdfs_utils.errors import HdfsError, NotSupported, Unavailable
from hdfs_utils.filesystem import BlockLocation, FileChecksum, FreeSpace

_BY_JAVA_CLASS: dict[str, type[HdfsError]] = {
    "FileNotFoundException": errors.NotFound,
    "AccessControlException": errors.PermissionDenied,
    "SecurityException": errors.PermissionDenied,
    "SafeModeException": errors.SafeMode,
    "StandbyException": Unavailable,
    "RetriableException": Unavailable,
    "UnsupportedOperationException": NotSupported,
    # An operation that an older NameNode does not know.
    "IllegalArgumentException": NotSupported,
}
# A question about a file's bytes is sent on to one DataNode; more hops would be a loop.
_MAX_REDIRECTS = 3


class WebHdfs:
    """Asks the first NameNode that answers and is active.

    Args:
        addresses: ``host:port`` of the NameNodes' HTTP servers.
        user: name sent with each question (simple authentication only).
        timeout_s: limit of each wait for the network, in seconds.
    """

    def __init__(self, addresses: tuple[str, ...], user: str, timeout_s: float) -> None:
        self._addresses = addresses
        self._user = user
        self._timeout_s = timeout_s

    def block_locations(self, path: str) -> tuple[BlockLocation, ...]:
        """Which hosts hold which part of a file."""
        blocks = self._ask("GETFILEBLOCKLOCATIONS", path)["BlockLocations"]["BlockLocation"]
        return tuple(
            BlockLocation(int(block["offset"]), int(block["length"]), tuple(block["hosts"]))
            for block in blocks
        )

    def checksum(self, path: str) -> FileChecksum:
        """The storage's own checksum of a file."""
        answer = self._ask("GETFILECHECKSUM", path)["FileChecksum"]
        return FileChecksum(algorithm=str(answer["algorithm"]), value=str(answer["bytes"]))

    def free_space(self) -> FreeSpace:
        """Space of the whole file system."""
        answer = self._ask("GETSTATUS", "/")["FsStatus"]
        return FreeSpace(int(answer["capacity"]), int(answer["used"]), int(answer["remaining"]))

    def read(self, path: str, offset: int) -> bytes:
        """The bytes of a file from ``offset`` on, those of its open block included."""
        return self._fetch("OPEN", path, offset=str(offset))

    def _ask(self, operation: str, path: str) -> dict[str, Any]:
        answer = json.loads(self._fetch(operation, path))
        assert isinstance(answer, dict)
        return answer

    def _fetch(self, operation: str, path: str, **arguments: str) -> bytes:
        query = urlencode({"op": operation, "user.name": self._user, **arguments})
        failure: HdfsError = NotSupported("no HTTP address to ask", path=path, operation=operation)
        for address in self._addresses:
            try:
                return self._get(
                    f"http://{address}/webhdfs/v1{quote(path)}?{query}", operation, path
                )
            except Unavailable as error:
                failure = error
        raise failure

    def _get(self, url: str, operation: str, path: str) -> bytes:
        for _ in range(_MAX_REDIRECTS + 1):
            parts = urlsplit(url)
            connection = http.client.HTTPConnection(parts.netloc, timeout=self._timeout_s)
            try:
                connection.request("GET", f"{parts.path}?{parts.query}")
                response = connection.getresponse()
                body = response.read()
            except (OSError, http.client.HTTPException) as error:
                message = f"no answer from http://{parts.netloc}: {error}"
                raise Unavailable(message, path=path, operation=operation) from error
            finally:
                connection.close()
            if response.status == 200:
                return body
            if response.status not in (301, 302, 307):
                raise _remote_error(response.status, body, operation, path)
            url = response.headers["Location"]
        raise Unavailable("redirected in a loop", path=path, operation=operation)


def _remote_error(status: int, body: bytes, operation: str, path: str) -> HdfsError:
    try:
        remote = json.loads(body)["RemoteException"]
        name, message = str(remote["exception"]), str(remote["message"])
    except (ValueError, KeyError, TypeError):
        text = f"HTTP {status} without a reason; is WebHDFS on, without Kerberos?"
        return NotSupported(text, path=path, operation=operation)
    kind = _BY_JAVA_CLASS.get(name, HdfsError)
    return kind(message.split("\n", 1)[0], path=path, operation=operation)
