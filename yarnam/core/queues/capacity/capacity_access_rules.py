"""Into which queue a job comes, and who may submit one.

After ``CapacitySchedulerConfiguration``, ``MappingRuleValidationContextImpl`` and
``AccessControlList`` of Hadoop 3.4.
"""

from __future__ import annotations

from collections.abc import Iterator

from yarnam.core.queues.capacity.capacity_file import CAPACITY, CapacityQueue, Setting
from yarnam.core.queues.capacity.capacity_values import REFUSED, CapacityInput, error, warning
from yarnam.core.queues.lint.lint_values import Finding, site_xml

_VARIABLES = frozenset(
    ("%user", "%primary_group", "%secondary_group", "%application", "%specified", "%default")
)
_BY_USER = f"{CAPACITY}.queue-mappings"
_BY_APPLICATION = "yarn.scheduler.queue-placement-rules.app-name"
_BY_WORKFLOW = f"{CAPACITY}.workflow-priority-mappings"
_FORMS = {
    _BY_USER: (3, "u:USER:QUEUE or g:GROUP:QUEUE"),
    _BY_APPLICATION: (2, "APPLICATION:QUEUE"),
    _BY_WORKFLOW: (3, "WORKFLOW:QUEUE:PRIORITY"),
}
"""How many parts a mapping has, and their form."""
_SUBMIT, _ADMINISTER = "acl_submit_applications", "acl_administer_queue"


def mapping_of_another_form(given: CapacityInput) -> Iterator[Finding]:
    """YARN takes all mappings, or none."""
    for setting, mapping, parts in _mappings(given):
        count, form = _FORMS[setting.name]
        is_good = len(parts) == count
        if setting.name == _BY_USER:
            is_good &= parts[:1] in (["u"], ["g"])
        elif setting.name == _BY_WORKFLOW and is_good:
            is_good = parts[2].lstrip("+-").isdigit()
        if not is_good:
            yield error(
                setting.line,
                f"{setting.name} has the mapping {mapping!r}",
                f"a mapping is {form}. {REFUSED}",
            )
    yield from _bad_format(given)


def _bad_format(given: CapacityInput) -> Iterator[Finding]:
    kind = given.config.settings.get(f"{CAPACITY}.mapping-rule-format")
    if kind is not None and kind.value not in ("", "legacy", "json"):
        why = f"the formats are legacy and json. {REFUSED}"
        yield error(kind.line, f"{kind.name} cannot be {kind.value!r}", why)


def mapping_to_no_queue(given: CapacityInput) -> Iterator[Finding]:
    """A queue is named in full, or by its last name where no other queue has it."""
    for setting, mapping, parts in _mappings(given):
        if len(parts) != _FORMS[setting.name][0]:
            continue  # another rule's
        target = parts[1] if setting.name == _BY_WORKFLOW else parts[-1]
        fault = _fault(given, target)
        if fault:
            yield error(setting.line, f"{setting.name}: {mapping} leads to {fault}", REFUSED)


def _is_json(given: CapacityInput) -> bool:
    return given.scheduler("mapping-rule-format") == "json"


def _mappings(given: CapacityInput) -> Iterator[tuple[Setting, str, list[str]]]:
    """Those that YARN reads, each with its parts."""
    for name in _FORMS:
        setting = given.config.settings.get(name)
        if setting is None or (_is_json(given) and name != _BY_WORKFLOW):
            continue
        for mapping in filter(None, (one.strip() for one in setting.value.split(","))):
            parts = [part.strip() for part in mapping.split(":")]
            yield setting, mapping, [part for part in parts if part]


def _fault(given: CapacityInput, target: str) -> str:
    """Describes the fault of the queue that a mapping names; empty where it has none."""
    parts = target.split(".")
    if not all(parts):
        return f"{target}, which has an empty name"
    fixed = next((n for n, part in enumerate(parts) if part in _VARIABLES), len(parts))
    if not fixed:
        return ""
    path = ".".join(parts[:fixed])
    found = _named(given, path)
    if len(found) > 1:
        return f"{path}, a name of {' and '.join(one.path for one in found)}: write it in full"
    if found:
        is_leaf = found[0].is_leaf and not _creates(found[0])
        if fixed < len(parts):
            return f"a queue below {found[0].path}, which takes jobs itself" if is_leaf else ""
        return "" if is_leaf else f"{found[0].path}, which has queues below it"
    above = _named(given, ".".join(parts[: fixed - 1]))
    if len(above) == 1 and _creates(above[0]):
        return ""
    return f"{path}, which is not there"


def _named(given: CapacityInput, path: str) -> list[CapacityQueue]:
    """The queues with this full name, else with a name that ends so."""
    exact = [one for one in given.queues() if one.path == path]
    begin, _, rest = path.partition(".")
    tops = [one for one in given.queues() if one.path.rpartition(".")[2] == begin]
    below = [one for one in given.queues() if one.path in {f"{top.path}.{rest}" for top in tops}]
    return exact or (below if rest else tops)


def _creates(queue: CapacityQueue) -> bool:
    """Whether YARN makes queues below it."""
    keys = ("auto-create-child-queue.enabled", "auto-queue-creation-v2.enabled")
    return any(queue.settings[key].value == "true" for key in keys if key in queue.settings)


def acl_without_effect(given: CapacityInput) -> Iterator[Finding]:
    """Access is inherited, root's default is everybody, and who administers may submit."""
    for key in (_SUBMIT, _ADMINISTER):
        for queue, above in _with_parents(given.config.root, ()):
            own = queue.settings.get(key)
            if own is None or own.value == "*":
                continue
            opening = next((one for one in above if _lets_all_in(one, key)), None)
            if opening is not None:
                yield warning(
                    own.line,
                    f"{key} of {queue.path} shuts nobody out",
                    f"whom a queue above lets in may do so below it too, and {opening.path} lets "
                    "everybody in",
                    site_xml(opening.full_name(key), " "),
                )
                break
            administers = next(
                (one for one in (*above, queue) if _lets_all_in(one, _ADMINISTER)), None
            )
            if key == _SUBMIT and administers is not None:
                yield warning(
                    own.line,
                    f"{key} of {queue.path} shuts nobody out: {administers.path} lets everybody "
                    "administer",
                    "who may administer a queue may submit to it too",
                    site_xml(administers.full_name(_ADMINISTER), " "),
                )
                break


def _with_parents(
    queue: CapacityQueue, above: tuple[CapacityQueue, ...]
) -> Iterator[tuple[CapacityQueue, tuple[CapacityQueue, ...]]]:
    yield queue, above
    for child in queue.children:
        yield from _with_parents(child, (*above, queue))


def _lets_all_in(queue: CapacityQueue, key: str) -> bool:
    own = queue.settings.get(key)
    return own.value == "*" if own is not None else queue.path == "root"


RULES = (mapping_of_another_form, mapping_to_no_queue, acl_without_effect)
