"""Read failure rules from their entries: the class provides the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError

from yarnam.core.model.outcomes import (
    FailureClass,
    FailureRole,
    FailureRule,
    RetryAction,
    Source,
)
from yarnam.errors import BadConfig, BadSpec, Blame
from yarnam.spec.sections.failure_sections import (
    MAX_RULES,
    OF_THE_PLATFORM,
    FailureRuleEntry,
)
from yarnam.spec.sections.section_base import Section
from yarnam.spec.yaml_tree import plain_document

SHIPPED_FILE = Path(__file__).with_name("failure_rules.yaml")

SITE_FILE = "failure-rules.yaml"
SITE_VARIABLE = "YARNAM_FAILURE_RULES"


@dataclass(frozen=True, slots=True)
class ClassDefaults:
    """The defaults that the rules of one class share."""

    blame: str
    action: str
    explanation: str
    hint: str


_UNKNOWN = ClassDefaults("user", "as-allowed", "The cause is not known.", "Read the log.")


@cache
def _shipped_file() -> Mapping[str, Any]:
    plain: Mapping[str, Any] = yaml.safe_load(SHIPPED_FILE.read_text(encoding="utf-8"))
    return plain


@cache
def class_defaults() -> Mapping[FailureClass, ClassDefaults]:
    """The shipped file's defaults of each class."""
    classes = _shipped_file()["classes"]
    return {FailureClass(name): ClassDefaults(**common) for name, common in classes.items()}


def shipped_rules() -> tuple[FailureRule, ...]:
    """The rules of the file, in its order. An entry there may also say ``source`` (whose words its
    patterns are about) and ``is_weak``."""
    return tuple(_shipped_rule(**plain) for plain in _shipped_file()["rules"])


def _shipped_rule(
    *, source: str = Source.PROCESS.value, is_weak: bool = False, **entry: Any
) -> FailureRule:
    rule = rule_of(FailureRuleEntry.model_validate(entry))
    return replace(rule, source=Source(source), is_weak=is_weak)


def rule_of(entry: FailureRuleEntry) -> FailureRule:
    """The rule that an entry means. Where it gives only one of action and blame, the other one
    follows: the user's mistakes are paid from the user's retries."""
    failure = FailureClass(entry.class_)
    common = class_defaults().get(failure, _UNKNOWN)
    action, blame = RetryAction(common.action), Blame(common.blame)
    if entry.action:
        action = RetryAction(entry.action)
        blame = Blame.INFRA if action in OF_THE_PLATFORM else blame
    if entry.blame:
        blame = Blame(entry.blame)
        is_of_user = blame is Blame.USER and not entry.action
        action = RetryAction.ALLOWED if is_of_user and action in OF_THE_PLATFORM else action
    return FailureRule(
        id=entry.id,
        failure=failure,
        action=action,
        blame=blame,
        role=FailureRole(entry.role),
        patterns=tuple(entry.patterns),
        exit_codes=tuple(entry.exit_codes),
        signals=tuple(entry.signals),
        raised_in=tuple(entry.raised_in),
        explanation=entry.explanation or common.explanation,
        hint=entry.hint or common.hint,
    )


class _SiteFile(Section):
    rules: Annotated[list[FailureRuleEntry], Field(default_factory=list, max_length=MAX_RULES)]


def site_rules(conf_dir: Path | None, environ: Mapping[str, str]) -> tuple[FailureRule, ...]:
    """The administrators' rules: of ``failure-rules.yaml`` beside yarn-site.xml, or of the file
    that YARNAM_FAILURE_RULES names; none if there is no file. Raises BadConfig."""
    named = environ.get(SITE_VARIABLE)
    if named is None and conf_dir is None:
        return ()
    path = Path(named).expanduser() if named else (conf_dir or Path()) / SITE_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if not named:
            return ()
        raise BadConfig(f"{SITE_VARIABLE} is {path}, which does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"cannot read {path}: {error}") from error
    return _site_rules(text, str(path))


def _site_rules(text: str, where: str) -> tuple[FailureRule, ...]:
    hint = "It has a list `rules`, as retry.rules of a job: yarnam docs failure-rules"
    try:
        found = _SiteFile.model_validate(plain_document(text, where) or {})
    except BadSpec as error:
        raise BadConfig(error.message, hint=hint) from error
    except ValidationError as error:
        said = (
            f"{where}: {'.'.join(str(part) for part in each['loc'])}: {each['msg']}"
            for each in error.errors(include_url=False)
        )
        raise BadConfig("\n".join(said), hint=hint) from None
    return tuple(rule_of(entry) for entry in found.rules)
