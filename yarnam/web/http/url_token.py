"""The secret in the address that a server on loopback prints.

A browser that opens that address gets a cookie, and the pages answer that browser alone.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from urllib.parse import quote, urlencode

from yarnam.web.http.http_messages import Request, Respond, Response, text_response

FIELD = "token"
"""The query field of the token."""
ABSENT = "Open the address that was printed at the start: its token is what lets a browser in."


def new_secret() -> str:
    return secrets.token_urlsafe(24)


@dataclass(frozen=True, slots=True)
class UrlToken:
    """One server's secret. A cookie is not bound to a port, so its name has it."""

    secret: str = field(repr=False)
    port: int

    @property
    def cookie_name(self) -> str:
        return f"yarnam-{self.port}"

    def url(self, address: str) -> str:
        """The address to print."""
        return f"http://{address}:{self.port}/?{FIELD}={self.secret}"

    def is_in(self, cookie: str) -> bool:
        """Whether the header of a request has the secret. A browser has the cookies of other
        servers on this host too."""
        pairs = (pair.strip().partition("=") for pair in cookie.split(";"))
        return any(name == self.cookie_name and self._is(value) for name, _, value in pairs)

    def entry(self, path: str, query: Mapping[str, str]) -> Response | None:
        """The redirect that turns the token of a query into the cookie, or `None` if the query has
        no valid token."""
        if not self._is(query.get(FIELD, "")):
            return None
        rest = urlencode({name: value for name, value in query.items() if name != FIELD})
        location = "/" + quote(path.lstrip("/")) + (f"?{rest}" if rest else "")
        return replace(
            text_response(HTTPStatus.SEE_OTHER, location),
            location=location,
            cookie=f"{self.cookie_name}={self.secret}; Path=/; HttpOnly; SameSite=Strict",
        )

    def _is(self, value: str) -> bool:
        return hmac.compare_digest(value.encode(), self.secret.encode())


def behind_token(respond: Respond, token: UrlToken) -> Respond:
    """Answers as ``respond`` does, for requests with the secret alone."""

    def guarded(request: Request) -> Response:
        if token.is_in(request.cookie):
            return respond(request)
        found = token.entry(request.path, request.query)
        return found or text_response(HTTPStatus.FORBIDDEN, ABSENT)

    return guarded
