"""Gets new delegation tokens by the keytab that lies with the ApplicationMaster:
``python -m yarnam.cli.containers.token_process URI MORE...``, with HADOOP_CONF_DIR and
KRB5_CLIENT_KTNAME.

A process of its own: Kerberos's library reads the environment of its process, and the AM's has the
tokens that it goes by in place of a ticket. Prints until when they live, in seconds since 1970,
then the tokens, a line each, to a pipe of the AM's; what failed goes to stderr.
"""

from __future__ import annotations

import os
import sys

from hdfs_utils import FileSystem, connect
from hdfs_utils.backends.connect import is_kerberos
from hdfs_utils.protocols import gssapi
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.adapters.http_identity import HttpIdentity
from yarnam.adapters.job_tokens import JobTokens, token_source
from yarnam.adapters.yarn.addresses import read_settings, rm_token_service
from yarnam.adapters.yarn.rest import ResourceManager
from yarnam.core.model.printable import printable_lines
from yarnam.errors import YarnamError

HDFS_TIMEOUT_S = 20.0
"""Nothing waits for it: the tokens in use live for hours still."""


def main() -> int:
    try:
        found = _obtain(os.environ["HADOOP_CONF_DIR"], *sys.argv[1:])
    except YarnamError as error:
        sys.stderr.write(f"{printable_lines(str(error))}\n")
        return 1
    lines = [repr(found.until_s), *found.by_alias.values()]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _obtain(conf_dir: str, uri: str, *more: str) -> JobTokens:
    """For the default file system, and more of them. Raises YarnamError."""
    settings = read_settings(conf_dir, "core-site.xml", "yarn-site.xml")
    rm = ResourceManager.from_conf(
        conf_dir, who=HttpIdentity(is_kerberos=is_kerberos(settings), conf_dir=conf_dir)
    )

    def open_web(one: str) -> FileSystem:
        return connect(one, conf_dir=conf_dir, backend="webhdfs", timeout_s=HDFS_TIMEOUT_S)

    source = token_source(settings, rm, rm_token_service(settings), uri, open_web)
    with hdfs_errors("getting a Kerberos ticket by the keytab"):
        principal = gssapi.identity().principal
    return source.for_running_job(principal, more)


if __name__ == "__main__":
    sys.exit(main())
