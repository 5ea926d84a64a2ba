"""A job's delegation tokens: those with which it starts, and those that replace them. Its
containers have no ticket to get any with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol
from urllib.parse import urlsplit

from hdfs_utils import FileSystem
from hdfs_utils.backends.webhdfs import WebHdfsFileSystem
from hdfs_utils.config.delegation_tokens import DelegationToken
from hdfs_utils.protocols.token_lifetime import max_date_s, usable_until_s
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.errors import BadConfig

RM_ALIAS = "yarnam-rm"


@dataclass(frozen=True, slots=True)
class JobTokens:
    """Attributes:
    by_alias: as the ResourceManager's REST API takes them. Secrets, out of ``repr``.
    until_s: when the first of them ends, in seconds since 1970; None: they do not say.
    """

    by_alias: Mapping[str, str] = field(repr=False)
    until_s: float | None


@dataclass(frozen=True)
class TokenSource:
    """Where a secure site hands out tokens, to who has a ticket.

    Attributes:
        open_web: HDFS's web server.
        rm_token: a token of the ResourceManager for a renewer, and when it ends unless renewed.
        uri: of HDFS.
        rm_service: the ResourceManager's service, which its REST API leaves empty. It renews its
            own token only where that is named.
        rm_name: the ResourceManager's short name, who renews a submission's tokens.
    """

    open_web: Callable[[], FileSystem]
    rm_token: Callable[[str], tuple[DelegationToken, float]]
    uri: str
    rm_service: str
    rm_name: str

    def for_submission(self) -> JobTokens:
        """Tokens that the ResourceManager renews for as long as it may. Raises NoPermission,
        BadConfig, Unavailable."""
        if not self.rm_name:
            raise BadConfig(
                "nobody is named who may renew the job's tokens",
                hint="yarn-site.xml needs yarn.resourcemanager.principal.",
            )
        with hdfs_errors("getting a delegation token of HDFS"):
            hdfs = self._web().delegation_token(self.rm_name)
        rm, _ = self.rm_token(self.rm_name)
        return self._named(hdfs, rm, [max_date_s(rm)])

    def for_running_job(self, principal: str) -> JobTokens:
        """Tokens that replace a job's own. The ResourceManager knows nothing of them: nobody
        renews them. ``principal``: who asks. Raises NoPermission, BadConfig, Unavailable."""
        web = self._web()
        with hdfs_errors("getting a delegation token of HDFS"):
            hdfs = web.delegation_token(principal)
            # Only the answer to a renewal says until when it lives without one.
            hdfs_until_s = web.renew_delegation_token(hdfs)
        rm, rm_until_s = self.rm_token(principal)
        return self._named(hdfs, rm, [hdfs_until_s, rm_until_s])

    def _web(self) -> WebHdfsFileSystem:
        web = self.open_web()
        if not isinstance(web, WebHdfsFileSystem):
            raise BadConfig("HDFS has no web server to get a delegation token from")
        return web

    def _named(
        self, hdfs: DelegationToken, rm: DelegationToken, ends_s: Sequence[float | None]
    ) -> JobTokens:
        authority = urlsplit(self.uri).netloc
        # Of a nameservice the clients look for its name, of one NameNode for its address.
        service = hdfs.service if ":" in authority else f"ha-hdfs:{authority}"
        rpc = hdfs.for_rpc(service)
        by_alias = {
            service: rpc.for_url(),
            RM_ALIAS: replace(rm, service=self.rm_service).for_url(),
        }
        return JobTokens(by_alias, _first((usable_until_s(rpc), *ends_s)))


class TokenIssuer(Protocol):
    """The part of the ResourceManager that hands out tokens."""

    @property
    def url(self) -> str: ...

    def delegation_token(self, renewer: str) -> tuple[DelegationToken, float]: ...


def token_source(
    settings: Mapping[str, str],
    rm: TokenIssuer,
    rm_service: str,
    uri: str,
    open_web: Callable[[], FileSystem],
) -> TokenSource:
    """Of a site, by the ``settings`` of core-site.xml and yarn-site.xml. Raises BadConfig."""
    protection = settings.get("hadoop.rpc.protection", "authentication")
    if rm.url.startswith("http:") and "authentication" not in protection:
        raise BadConfig(
            f"hadoop.rpc.protection is {protection}, but {rm.url} would get the job's tokens"
            " in the clear",
            hint="Ask an administrator to set yarn.http.policy to HTTPS_ONLY.",
        )
    principal = settings.get("yarn.resourcemanager.principal", "")
    return TokenSource(
        open_web=open_web,
        rm_token=rm.delegation_token,
        uri=uri,
        rm_service=rm_service,
        rm_name=principal.partition("/")[0].partition("@")[0],
    )


def _first(dates_s: Iterable[float | None]) -> float | None:
    return min((date_s for date_s in dates_s if date_s is not None), default=None)
