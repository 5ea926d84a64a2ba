"""The placement policy: into which queue a job comes."""

from __future__ import annotations

from collections.abc import Iterator

from yarnam.core.queues.allocations import Element, QueueConfig
from yarnam.core.queues.lint.lint_values import FAIR, Finding, LintInput, error, warning
from yarnam.core.queues.lint.meant_names import meant_name

_ALWAYS, _NEVER, _IF_CREATING = "always", "never", "if it may create queues"
_TERMINAL = {
    "user": _IF_CREATING,
    "primaryGroup": _IF_CREATING,
    "secondaryGroupExistingQueue": _NEVER,
    "specified": _NEVER,
    "nestedUserQueue": _IF_CREATING,
    "default": _IF_CREATING,
    "reject": _ALWAYS,
}
"""Whether a rule always decides (QueuePlacementPolicy.RULES of Hadoop 3.2 to 3.4)."""


def _rules(given: LintInput) -> list[tuple[str, Element]]:
    """With their names: ``<rule name="user"/>``, or the older ``<user/>``."""
    return [
        (rule.attributes.get("name", "") if rule.tag == "rule" else rule.tag, rule)
        for rule in given.allocations.rules
    ]


def _creates(rule: Element) -> bool:
    return rule.attributes.get("create", "true").lower() == "true"


def _create_attribute(rule: Element) -> str:
    return "" if _creates(rule) else ' create="false"'


def _is_terminal(name: str, rule: Element) -> bool:
    kind = _TERMINAL.get(name, _NEVER)
    return kind == _ALWAYS or (kind == _IF_CREATING and _creates(rule))


def unknown_rule(given: LintInput) -> Iterator[Finding]:
    """YARN refuses the file."""
    for name, rule in _rules(given):
        if name not in _TERMINAL:
            yield error(
                rule,
                f"there is no placement rule {name!r}",
                f"YARN refuses the file; the rules are {', '.join(_TERMINAL)}",
            )
        if name == "nestedUserQueue" and not any(one.tag == "rule" for one in rule.children):
            yield error(
                rule,
                "nestedUserQueue has no rule inside",
                "YARN refuses the file: it names the queue above the user's",
                f'<rule name="nestedUserQueue"{_create_attribute(rule)}>'
                '<rule name="primaryGroup"/></rule>',
            )


def unreachable_rule(given: LintInput) -> Iterator[Finding]:
    """Behind one that always decides."""
    rules = _rules(given)
    for number, (name, rule) in enumerate(rules[:-1]):
        if _is_terminal(name, rule):
            yield error(
                rules[number + 1][1],
                f"the rule {rules[number + 1][0]} is never reached",
                f"{name} before it always decides; YARN refuses the file",
                f'<rule name="{name}" create="false"/>',
            )
            break


def no_last_rule(given: LintInput) -> Iterator[Finding]:
    """The last one has to decide."""
    rules = _rules(given)
    if rules and not _is_terminal(*rules[-1]):
        yield error(
            rules[-1][1],
            f"a job can get past the last rule, {rules[-1][0]}",
            "YARN refuses the file",
            '<rule name="reject"/>',
        )


def shadowed_rule(given: LintInput) -> Iterator[Finding]:
    """Twice the same."""
    seen: set[str] = set()
    for name, rule in _rules(given):
        if name in seen and name != "nestedUserQueue":
            yield warning(rule, f"the rule {name} occurs twice", "the second one decides nothing")
        seen.add(name)


def default_rule_without_queue(given: LintInput) -> Iterator[Finding]:
    """Where it leads to."""
    for name, rule in _rules(given):
        if name != "default":
            continue
        target = rule.attributes.get("queue", "root.default")
        full = target if target.startswith("root.") else f"root.{target}"
        found = given.allocations.queue(full)
        if found is None and not _creates(rule):
            yield error(rule, f"the default queue {full} is not there", "its jobs are rejected")
        elif found is not None and found.is_parent:
            yield error(
                rule, f"the default queue {full} has queues below it", "only a leaf takes jobs"
            )
        elif found is None and full != "root.default":
            meant = meant_name(full, [one.name for one in given.queues()], {})
            yield warning(
                rule,
                f"the default queue {full} is not in the file",
                "YARN makes it, with weight 1 and no limits",
                f'<rule name="default" queue="{meant}"/>' if meant else "",
            )


def queue_named_default(given: LintInput) -> Iterator[Finding]:
    """SpecifiedPlacementRule takes the word for "not specified"."""
    leads_there = any(
        name == "default" and rule.attributes.get("queue", "root.default") == "root.default"
        for name, rule in _rules(given)
    )
    for queue in given.queues():
        if queue.name == "root.default" and queue.element.line and not leads_there:
            yield warning(
                queue.element,
                "a queue is named default",
                "to the Fair Scheduler the word means that no queue is specified: jobs for it go "
                "where the next rules lead",
                '<rule name="default" queue="root.default"/>',
            )


def undeclared_queues(given: LintInput) -> Iterator[Finding]:
    """A typing error makes a queue."""
    if not given.allocations.rules:
        if given.setting(f"{FAIR}.allow-undeclared-pools", "true") == "true":
            yield warning(
                given.allocations.document,
                "a job for a queue that is not there makes it",
                "there is no <queuePlacementPolicy>: a misspelt name is a new queue with weight 1 "
                "and no limits",
                '<queuePlacementPolicy><rule name="specified" create="false"/>'
                '<rule name="reject"/></queuePlacementPolicy>',
            )
        return
    for name, rule in _rules(given):
        if name == "specified" and _creates(rule):
            yield warning(
                rule,
                "a job for a queue that is not there makes it",
                "a misspelt name is a new queue with weight 1 and no limits",
                '<rule name="specified" create="false"/>',
            )


def acl_without_effect(given: LintInput) -> Iterator[Finding]:
    """Access is inherited, and root's default is everybody."""
    root_acl = given.root.element.child("aclSubmitApps")
    if root_acl is not None and root_acl.text.strip() != "*":
        return
    for queue in _guarded(given.root):
        found = queue.element.child("aclSubmitApps")
        if found is not None:
            yield warning(
                found,
                f"aclSubmitApps of {queue.name} shuts nobody out",
                "whom a queue above lets in may submit below it too, and root lets everybody in",
                "<aclSubmitApps> </aclSubmitApps> in root",
            )
            return


def _guarded(root: QueueConfig) -> Iterator[QueueConfig]:
    for queue in root.walk():
        found = queue.element.child("aclSubmitApps")
        if queue is not root and found is not None and found.text.strip() != "*":
            yield queue


RULES = (
    unknown_rule,
    unreachable_rule,
    no_last_rule,
    shadowed_rule,
    default_rule_without_queue,
    queue_named_default,
    undeclared_queues,
    acl_without_effect,
)
