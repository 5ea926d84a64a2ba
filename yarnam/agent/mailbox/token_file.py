"""The container's delegation tokens, which the job replaces before they end.

The processes find them by ``HADOOP_TOKEN_FILE_LOCATION``: HDFS's native client and ``hdfs_utils``
read that file again for each new connection, a JVM when it starts.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from hdfs_utils.errors import HdfsError
from yarnam._light_imports import on_first_use

with on_first_use():  # few sites have tokens, and each agent loads this module
    from hdfs_utils.config import delegation_tokens

_LOG = logging.getLogger("yarnam.agent")


class TokenFile:
    """The token file of one container."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._wanted: tuple[str, ...] = ()

    def take(self, tokens: Sequence[str]) -> bool:
        """Put these tokens (as Hadoop's REST interfaces write them) in place of what they replace.
        Whether they are in the file."""
        self._wanted = tuple(tokens)
        return self.write()

    def write(self) -> bool:
        """Once more what ``take`` was given last. Whether it is in the file."""
        if not self._wanted:
            return True
        path = self._env.get(delegation_tokens.TOKEN_FILE_VARIABLE, "")
        if not path:
            return True
        try:
            delegation_tokens.replace_in_file(path, map(delegation_tokens.from_url, self._wanted))
        except HdfsError as error:
            _LOG.error("the new delegation tokens are not in %s: %s", path, error.message)
            return False
        self._wanted = ()
        _LOG.info("new delegation tokens are in %s", path)
        return True
