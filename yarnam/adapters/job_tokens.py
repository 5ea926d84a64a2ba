"""A job's delegation tokens: those with which it starts, and those that replace them. Its
containers have no ticket to get any with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol
from urllib.parse import urlsplit

from hdfs_utils import FileSystem
from hdfs_utils.backends.webhdfs import WebHdfsFileSystem
from hdfs_utils.config import auth_to_local, nameservices
from hdfs_utils.config.delegation_tokens import DelegationToken
from hdfs_utils.protocols.token_lifetime import max_date_s, usable_until_s
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.errors import BadConfig

RM_ALIAS = "yarnam-rm"


@dataclass(frozen=True, slots=True)
class JobTokens:
    """Attributes: by_alias: as the ResourceManager's REST API takes them. Secrets, out of ``repr``.
    until_s: when the first of them ends, in seconds since 1970; ``None`` means they do not say."""

    by_alias: Mapping[str, str] = field(repr=False)
    until_s: float | None


@dataclass(frozen=True)
class TokenSource:
    """Where a secure site hands out tokens, to who has a ticket.

    Attributes:
        open_web: the web server of one HDFS, by its URI.
        rm_token: a token of the ResourceManager for a renewer, and when it ends unless renewed.
        uris: of the cluster's default file system; several where it is a viewfs.
        rm_service: the ResourceManager's service, which its REST API leaves empty. It renews its
            own token only where that is named.
        rm_name: the ResourceManager's short name, who renews a submission's tokens.
        parts_of: the file systems behind a URI, which are several of a viewfs.
    """

    open_web: Callable[[str], FileSystem]
    rm_token: Callable[[str], tuple[DelegationToken, float]]
    uris: tuple[str, ...]
    rm_service: str
    rm_name: str
    parts_of: Callable[[str], tuple[str, ...]] = lambda uri: (uri,)

    def for_submission(self, more: Iterable[str] = ()) -> JobTokens:
        """Tokens that the ResourceManager renews for as long as it may. ``more``: URIs of other
        file systems that the job needs. Raises NoPermission, BadConfig, Unavailable."""
        if not self.rm_name:
            raise BadConfig(
                "no token renewer is configured",
                hint="yarn-site.xml needs yarn.resourcemanager.principal.",
            )
        found = []
        for uri in self._file_systems(more):
            with hdfs_errors(f"getting a delegation token of {uri}"):
                found.append(_named(uri, self._web(uri).delegation_token(self.rm_name)))
        rm, _ = self.rm_token(self.rm_name)
        return self._together(found, rm, [max_date_s(rm)])

    def for_running_job(self, principal: str, more: Iterable[str] = ()) -> JobTokens:
        """Tokens that replace a job's own. The ResourceManager does not know them, so nobody
        renews them. ``principal``: the caller; ``more`` as above. Raises NoPermission,
        BadConfig, Unavailable."""
        found, ends_s = [], []
        for uri in self._file_systems(more):
            web = self._web(uri)
            with hdfs_errors(f"getting a delegation token of {uri}"):
                token = web.delegation_token(principal)
                # Only the answer to a renewal says until when it lives without one.
                ends_s.append(web.renew_delegation_token(token))
            found.append(_named(uri, token))
        rm, rm_until_s = self.rm_token(principal)
        return self._together(found, rm, [*ends_s, rm_until_s])

    def _file_systems(self, more: Iterable[str]) -> tuple[str, ...]:
        with hdfs_errors("looking for the job's file systems"):
            parts = [part for uri in more for part in self.parts_of(uri)]
        return tuple(dict.fromkeys((*self.uris, *parts)))

    def _web(self, uri: str) -> WebHdfsFileSystem:
        with hdfs_errors(f"looking for the web server of {uri}"):
            web = self.open_web(uri)
        if not isinstance(web, WebHdfsFileSystem):
            raise BadConfig(f"{uri} has no web server to get a delegation token from")
        return web

    def _together(
        self,
        hdfs: Iterable[DelegationToken],
        rm: DelegationToken,
        ends_s: Sequence[float | None],
    ) -> JobTokens:
        by_service = {token.service: token for token in hdfs}
        own = replace(rm, service=self.rm_service)
        by_alias = {service: token.for_url() for service, token in by_service.items()}
        known = (usable_until_s(token) for token in by_service.values())
        return JobTokens({**by_alias, RM_ALIAS: own.for_url()}, _first((*known, *ends_s)))


class TokenIssuer(Protocol):
    """The part of the ResourceManager that hands out tokens."""

    @property
    def url(self) -> str: ...

    def delegation_token(self, renewer: str) -> tuple[DelegationToken, float]: ...


def _named(uri: str, token: DelegationToken) -> DelegationToken:
    """Under the name by which clients of this file system look for it: of a nameservice its name,
    of one NameNode its address, of a web server that one's."""
    parts = urlsplit(uri)
    if parts.scheme in {"webhdfs", "swebhdfs"}:
        return replace(token, service=parts.netloc)
    return token.for_rpc(token.service if ":" in parts.netloc else f"ha-hdfs:{parts.netloc}")


def token_source(
    settings: Mapping[str, str],
    rm: TokenIssuer,
    rm_service: str,
    uri: str,
    open_web: Callable[[str], FileSystem],
) -> TokenSource:
    """The tokens of a site, by the ``settings`` of core-site.xml and yarn-site.xml; ``uri`` is
    its default file system. Raises BadConfig."""
    protection = settings.get("hadoop.rpc.protection", "authentication")
    if rm.url.startswith("http:") and "authentication" not in protection:
        raise BadConfig(
            f"hadoop.rpc.protection is {protection}, but {rm.url} would get the job's tokens"
            " in the clear",
            hint="Ask an administrator to set yarn.http.policy to HTTPS_ONLY.",
        )
    with hdfs_errors("reading who the ResourceManager's principal is"):
        rm_name = auth_to_local.short_name(
            settings.get("yarn.resourcemanager.principal", ""), settings
        )
    return TokenSource(
        open_web=open_web,
        rm_token=rm.delegation_token,
        uris=nameservices.parts_of(uri, settings),
        rm_service=rm_service,
        rm_name=rm_name,
        parts_of=lambda given: nameservices.parts_of(given, settings),
    )


def _first(dates_s: Iterable[float | None]) -> float | None:
    return min((date_s for date_s in dates_s if date_s is not None), default=None)
