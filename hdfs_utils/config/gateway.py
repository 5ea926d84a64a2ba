"""One HTTPS address in front of a site, such as an Apache Knox: it signs people in and passes their
requests on, HDFS's REST interface at ``/webhdfs/v1`` below the address.

Who asks is said by HTTP Basic, with the name and password of the gateway's host in ``~/.netrc`` (as
curl and ``requests`` read it; ``NETRC`` names another file), or by a bearer token in a file. Both
files are read at each request, for they are replaced before what they hold ends. Nothing of them is
ever part of a URL or of a message.
"""

from __future__ import annotations

import base64
import netrc
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from hdfs_utils.errors import BadConfig, NoCredentials

_CSRF = {"X-XSRF-Header": "hdfs_utils"}
"""Any value: Knox's provider WebAppSec refuses a change without this header, since a page in a
browser cannot send it to another site."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway and its credentials. Make it with :func:`gateway_at`.

    Attributes:
        url: ``https://host:port/gateway/TOPOLOGY``, without a slash at its end.
        token_file: holds a bearer token; empty means by the netrc file.
        netrc_file: of names and passwords by host.
    """

    url: str
    token_file: str = ""
    netrc_file: str = ""

    @property
    def origin(self) -> str:
        """``https://host:port``: where its headers may go."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def owns(self, url: str) -> bool:
        """Whether a URL leads to the gateway itself."""
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc}".lower() == self.origin.lower()

    @property
    def login(self) -> str:
        """The name in the netrc file; empty with a token.

        Raises:
            NoCredentials: neither does.
        """
        return "" if self.token_file else self._credentials()[0]

    def headers(self) -> dict[str, str]:
        """Add the credentials. For the gateway alone: see ``owns``.

        Raises:
            NoCredentials: there is no password and no token.
        """
        if self.token_file:
            return {"Authorization": f"Bearer {self._token()}", **_CSRF}
        pair = ":".join(self._credentials()).encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}", **_CSRF}

    def _token(self) -> str:
        try:
            token = Path(self.token_file).read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            message = f"the token for the gateway cannot be read: {type(error).__name__}"
            raise NoCredentials(message, path=self.token_file) from None
        if not token or any(sign.isspace() for sign in token):
            raise NoCredentials("holds no token for the gateway", path=self.token_file)
        return token

    def _credentials(self) -> tuple[str, str]:
        host = urlsplit(self.url).hostname or ""
        try:
            found = netrc.netrc(self.netrc_file).authenticators(host)
        except FileNotFoundError:
            found = None
        except (OSError, netrc.NetrcParseError, UnicodeDecodeError) as error:
            # A parse error quotes the file, where the next word may be a password.
            message = f"the passwords for the gateway cannot be read: {type(error).__name__}"
            raise NoCredentials(message, path=self.netrc_file) from None
        if found is None or not found[0] or not found[2]:
            message = f"has no name and password for the gateway {host}"
            raise NoCredentials(message, path=self.netrc_file)
        return found[0], found[2]


def gateway_at(address: str, *, token_file: str = "", netrc_file: str = "") -> Gateway:
    """The gateway at this address; by default with the names and passwords of ``~/.netrc``.

    Raises:
        BadConfig: it is not a plain https address.
    """
    url = address.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise BadConfig(_WANTED) from None
    if "@" in parts.netloc:
        raise BadConfig("the gateway's address holds a name or a password; ~/.netrc is for these")
    if not is_whole or parts.query or parts.fragment:
        raise BadConfig(f"{_WANTED}, not {url}")
    own = netrc_file or os.environ.get("NETRC") or "~/.netrc"
    return Gateway(url, token_file, str(Path(own).expanduser()))


_WANTED = "the gateway's address has to be like https://knox.example:8443/gateway/TOPOLOGY"
