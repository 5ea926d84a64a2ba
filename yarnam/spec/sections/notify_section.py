"""Sections of the spec for notifications and access control lists."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from yarnam.spec.sections.section_base import Section
from yarnam.spec.values.fields import Text

MAX_CHANNELS = 10
MAX_NAMES = 100
"""The most entries of an ACL. YARN keeps the ACL of each application in memory."""


class Notify(Section):
    """Whom to notify when the job reaches a state: see [notifications](../how-to/notifications.md).
    The ApplicationMaster sends each state once to each entry; an AM that dies while it sends may
    send it twice."""

    kind: Annotated[Literal["webhook", "slack", "mail"], Field(examples=["slack"])]
    """`webhook`: an HTTP POST with JSON. `slack`: an HTTP POST of `{"text": ...}`, which
    Mattermost and Rocket.Chat take as well. `mail`: by an SMTP server."""
    url: Text | None = None
    """`http://` or `https://`; for a mail `smtp://` or `smtps://` with `user:password@host:port`,
    of which the host is enough. It is never shown or logged."""
    url_from: Text | None = None
    """Instead of `url`: the environment variable of `yarnam submit` that holds it."""
    states: Annotated[
        list[Literal["running", "replacing", "succeeded", "failed", "cancelled"]],
        Field(min_length=1),
    ] = ["succeeded", "failed", "cancelled"]
    """The states to notify of."""
    to: list[Text] = []
    """The addresses that a mail goes to."""
    sender: Text | None = None
    """The address that a mail comes from. Default: the user's name at the server's host."""


Names = Annotated[list[Text], Field(max_length=MAX_NAMES)]


class Acls(Section):
    """Other users who may see or control the job, if YARN enforces ACLs (`yarn.acl.enable`). An
    entry is a user name, `group:NAME`, or `*`. The owner and YARN's administrators always may. See
    [security](../explanation/security.md#with-kerberos)."""

    view: Names = []
    """Users who may see the job's page, its API, and its logs in YARN."""
    modify: Names = []
    """Users who may kill the job."""
