"""Who a Kerberos principal is to Hadoop: the rules of ``hadoop.security.auth_to_local``.

As ``KerberosName`` of Hadoop's sources has them: the first rule that fits makes the short name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hdfs_utils.errors import BadConfig

RULES = "hadoop.security.auth_to_local"
MECHANISM = "hadoop.security.auth_to_local.mechanism"
"""``hadoop``: a short name has neither ``/`` nor ``@``, and a principal needs a rule that fits.
``MIT``: neither is so."""

_SERVICES = ("dfs.namenode.kerberos.principal", "yarn.resourcemanager.principal")
_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:\[(?P<count>\d+):(?P<format>[^\]]*)\]"
    r"(?:\((?P<match>[^)]*)\))?(?:s/(?P<old>[^/]*)/(?P<new>[^/]*)/(?P<all>g)?)?)"
    r"/?(?P<lower>L)?(?=\s|$)"
)
_PARAMETER = re.compile(r"\$(\d)")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        count: components of the principals that it is for; 0 means the rule DEFAULT.
        shape: what is made of them, with ``$0`` for the realm.
        match: what that has to be, as a whole; empty means anything.
        old: what is replaced in it; empty means nothing.
        new: by what, with ``$1`` for the first group of ``old``.
        is_global: each occurrence of ``old``, not only the first.
        is_lower: all letters become small ones.
    """

    count: int = 0
    shape: str = ""
    match: str = ""
    old: str = ""
    new: str = ""
    is_global: bool = False
    is_lower: bool = False

    def applied(self, parts: Sequence[str], realm: str) -> str | None:
        """The short name by this rule; ``None`` means it is not for this principal. ``parts``: the
        realm, then the components; ``realm``: the site's own, empty where it is not known."""
        if not self.count:
            return self._cased(parts[1]) if parts[0] == realm or not realm else None
        if len(parts) - 1 != self.count:
            return None
        found = _PARAMETER.sub(lambda number: _part(parts, int(number[1])), self.shape)
        if self.match and not re.fullmatch(self.match, found):
            return None
        if self.old:
            found = re.sub(self.old, self._replaced, found, count=0 if self.is_global else 1)
        return self._cased(found)

    def _replaced(self, found: re.Match[str]) -> str:
        return _PARAMETER.sub(lambda number: found[int(number[1])] or "", self.new)

    def _cased(self, name: str) -> str:
        return name.lower() if self.is_lower else name


def short_name(principal: str, properties: Mapping[str, str]) -> str:
    """Who this principal (``ada@EXAMPLE.COM``, ``nn/host@EXAMPLE.COM``) is to a site's daemons.

    Raises:
        BadConfig: no rule of the site fits, or a rule is none.
    """
    name, _, realm = principal.partition("@")
    parts = (realm, *name.split("/"))
    if not realm:
        return parts[1]
    is_mit = properties.get(MECHANISM, "hadoop").strip().lower() == "mit"
    text = properties.get(RULES, "").strip() or "DEFAULT"
    for rule in rules_of(text):
        try:
            found = rule.applied(parts, _own_realm(properties))
        except (re.error, IndexError) as error:
            raise BadConfig(f"{RULES} has a rule that is none: {error}") from error
        if found is None:
            continue
        if not is_mit and re.search("[/@]", found):
            raise BadConfig(f"{RULES} makes {found} of {principal}, which is not a user's name")
        return found
    if is_mit:
        return principal
    raise BadConfig(f"no rule of {RULES} fits {principal}: the site does not know this principal")


def rules_of(text: str) -> tuple[Rule, ...]:
    """The rules of a setting, in their order.

    Raises:
        BadConfig: it has something else in it.
    """
    found, position = [], 0
    text = text.strip()
    while position < len(text):
        one = _RULE.match(text, position)
        if one is None:
            raise BadConfig(f"{RULES} has no rule at {text[position : position + 60]!r}")
        found.append(
            Rule(
                int(one["count"] or 0),
                one["format"] or "",
                one["match"] or "",
                one["old"] or "",
                one["new"] or "",
                is_global=bool(one["all"]),
                is_lower=bool(one["lower"]),
            )
        )
        position = one.end()
    return tuple(found)


def _part(parts: Sequence[str], number: int) -> str:
    if number >= len(parts):
        raise IndexError(f"${number} of a principal with {len(parts) - 1} components")
    return parts[number]


def _own_realm(properties: Mapping[str, str]) -> str:
    """The daemons' realm, to which they belong by their own principals."""
    named = (properties.get(key, "").partition("@")[2] for key in _SERVICES)
    return next((realm for realm in named if realm), "")
