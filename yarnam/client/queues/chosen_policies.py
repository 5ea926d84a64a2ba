"""Looks at the policies that are chosen for queues, and chooses one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from yarnam._light_imports import on_first_use
from yarnam.adapters.yarn.addresses import secret_file, zookeeper_credentials
from yarnam.client.monitor.job_history import ALL_USERS, JobHistory
from yarnam.client.queues.queue_rights import must_administer
from yarnam.client.site import Site
from yarnam.core.accounting.job_summary import HistoryFilter
from yarnam.core.accounting.past_services import LEAST_JOBS, past_services
from yarnam.core.policies.chosen_policy import QueuePolicy, checked
from yarnam.core.policies.policy_registry import NAMES, policy_named
from yarnam.core.policies.scheduling_policy import Policy
from yarnam.errors import UsageError, YarnamError

if TYPE_CHECKING:
    from yarnam.adapters.zookeeper.queue_policies import QueuePolicies

with on_first_use():
    from yarnam.adapters.zookeeper import lazy_session, queue_policies

ADMIN_VARIABLE = "YARNAM_ZOOKEEPER_ADMIN_AUTH_FILE"
"""A file with ``digest:user:password`` of those who may choose policies."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A change of a queue's policy."""

    before: QueuePolicy
    now: QueuePolicy
    is_protected: bool
    """Whether ZooKeeper keeps others from changing it."""
    from_past: str = ""
    """The words of the history for a setting that was not given, or why it has none; empty if the
    policy has no such setting, or it was given."""


class ChosenPolicies:
    """The policies of a site's queues (``Client.policies``). What a policy has decided for a job is
    in its status: ``client.job("my-job").status().policy``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def known(self) -> tuple[Policy, ...]:
        """All policies that this version has, with their settings."""
        return tuple(policy_named(name) for name in NAMES)

    def all(self) -> Mapping[str, QueuePolicy]:
        """The policy of each queue for which one is chosen; empty without a ZooKeeper. Raises
        Unavailable."""
        if not self._site.zookeeper:
            return {}
        with _opened(self._site) as policies:
            return policies.all()

    def of(self, queue: str) -> QueuePolicy:
        """The policy of one queue, by its full name. Raises Unavailable, UsageError."""
        with _opened(self._site) as policies:
            return policies.of(queue)

    def choose(
        self,
        queue: str,
        name: str,
        settings: Mapping[str, str] = MappingProxyType({}),
        *,
        version: int | None = None,
    ) -> Choice:
        """``settings`` as on the command line: ``{"limits": "3600,36000"}``; services of past jobs
        that are not given come from the history. ``version``: of the choice that this is a change
        of; ``None`` means of what is there now. Raises UsageError (there is no such queue, policy
        or setting; somebody else has changed it meanwhile), NoPermission, Unavailable."""
        site = self._site
        checked(name, settings)
        _must_have_zookeeper(site)
        _must_be_there(site, queue)
        must_administer(site, queue)
        told, from_past = _from_history(site, queue, name, settings)
        wanted = checked(name, {**told, **settings}, by=site.user, at_s=time.time())
        admin = secret_file(site.environ, ADMIN_VARIABLE)
        with _opened(site) as policies:
            before = policies.of(queue)
            expected = before.version if version is None else version
            now = policies.choose(queue, wanted, expected=expected, admin=admin)
            return Choice(before, now, policies.is_protected(queue), from_past)


def _from_history(
    site: Site, queue: str, name: str, given: Mapping[str, str]
) -> tuple[dict[str, str], str]:
    """Settings that were not given, from the history of the queue's jobs, and a word on them."""
    wanted = [one.name for one in policy_named(name).settings if one.is_from_past]
    missing = [one for one in wanted if one not in given]
    if not missing:
        return {}, ""
    try:
        rows = JobHistory(site).jobs(HistoryFilter(queue=queue), ALL_USERS).rows
    except YarnamError as error:
        return {}, f"the history of past jobs cannot be read: {error.message}"
    services = past_services(rows, queue)
    if not services:
        return {}, f"the history has fewer than {LEAST_JOBS} jobs of {queue} that had GPUs"
    text = ",".join(f"{service:g}" for service in services)
    return dict.fromkeys(missing, text), f"{len(services)} services of past jobs of {queue}"


def _must_have_zookeeper(site: Site) -> None:
    """Raises UsageError, NotThroughGateway."""
    if not site.zookeeper:
        raise UsageError(
            "policies of queues are kept in ZooKeeper, and none is configured",
            hint="yarnam docs zookeeper tells how. Without it every job acts by itself.",
        )
    site.must_reach("ZooKeeper, which keeps the policies of queues,")


@contextmanager
def _opened(site: Site) -> Iterator[QueuePolicies]:
    _must_have_zookeeper(site)
    session = lazy_session.LazySession(site.zookeeper, zookeeper_credentials(site.environ))
    try:
        yield queue_policies.QueuePolicies(session.connected())
    finally:
        session.close()


def _must_be_there(site: Site, queue: str) -> None:
    """Jobs know their queue by the name that the ResourceManager gives it."""
    names = {one.name for one in site.rm.snapshot(queue).queues}
    if names and queue not in names:
        raise UsageError(
            f"there is no leaf queue {queue[:60]!a}", hint=f"There are: {', '.join(sorted(names))}"
        )
