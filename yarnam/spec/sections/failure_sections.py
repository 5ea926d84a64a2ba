"""Rules by which failures are classified: entries of ``retry.rules`` and of the shipped file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from yarnam.core.failures.line_pattern import pattern_problem
from yarnam.core.model.outcomes import FailureClass, FailureRole, RetryAction
from yarnam.errors import Blame
from yarnam.spec.sections.section_base import Section
from yarnam.spec.values.fields import Text, wrong

MAX_RULES = 200
"""The most rules of one job: each of its agents reads them when a process fails."""

OF_THE_PLATFORM = frozenset({RetryAction.RETRY, RetryAction.ELSEWHERE, RetryAction.FREE})
"""Actions that are not paid from the user's retries."""

NOT_FOR_USERS = frozenset({RetryAction.ELSEWHERE.value, RetryAction.FREE.value})

if TYPE_CHECKING:
    FailureClassName: TypeAlias = str
    ActionName: TypeAlias = str
    BlameName: TypeAlias = str
    RoleName: TypeAlias = str
else:
    FailureClassName = Literal[tuple(each.value for each in FailureClass)]
    ActionName = Literal[tuple(each.value for each in RetryAction)]
    BlameName = Literal[Blame.USER.value, Blame.INFRA.value]
    RoleName = Literal[tuple(each.value for each in FailureRole)]
ShortText = Annotated[Text, Field(max_length=500)]


class FailureRuleEntry(Section):
    """How to classify a failure of the job. A rule applies to a process that ended with one of its
    exit codes or signals, to a line of its output that matches one of its patterns, and to a
    traceback that ends in one of its files; all of these that a rule has must hold. The job's own
    rules come before yarnam's, in the order of the list."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$", examples=["flaky-license"])]
    """The rule's name: lower-case letters, digits and hyphens."""
    class_: Annotated[FailureClassName, Field(alias="class", examples=["communication-error"])]
    """The class of the failure. It provides the defaults for the keys below."""
    patterns: Annotated[
        list[ShortText], Field(max_length=100, examples=[["license server * busy"]])
    ] = []
    """Text that a line of the output contains, in capitals or not. `*` stands for any text within
    the line, `^` at the start for the start of the line."""
    exit_codes: Annotated[list[Annotated[int, Field(ge=1, le=255)]], Field(max_length=255)] = []
    """Exit codes of the process."""
    signals: Annotated[list[Annotated[int, Field(ge=1, le=64)]], Field(max_length=64)] = []
    """Numbers of signals that ended it."""
    raised_in: Annotated[
        list[Annotated[Text, Field(min_length=4, max_length=100)]],
        Field(max_length=100, examples=[["/site-packages/cv2/"]]),
    ] = []
    """Parts of paths of Python files; one of the last eight frames of the traceback must be in such
    a file."""
    role: RoleName = FailureRole.ROOT.value
    """`root`: the process failed on its own. `cascade`: because another one had failed.
    `confirmation`: it reports the failure of another one."""
    action: ActionName | None = None
    """Whether and how to retry: [failure rules](failure-rules.md#actions)."""
    blame: BlameName | None = None
    """Who has to act: `user` or `infra`. Without it `infra` if `action` is `retry`,
    `retry-elsewhere` or `retry-free`, else that of the class."""
    explanation: ShortText | None = None
    """The explanation for the verdict."""
    hint: ShortText | None = None
    """The next step for the user, for the verdict."""

    @field_validator("patterns")
    @classmethod
    def _check_patterns(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            if problem := pattern_problem(pattern):
                raise wrong(f"the pattern {pattern[:60]!r} {problem}")
        return patterns

    @model_validator(mode="after")
    def _check_evidence(self) -> FailureRuleEntry:
        if not (self.patterns or self.exit_codes or self.signals or self.raised_in):
            raise wrong("needs `patterns`, `exit_codes`, `signals` or `raised_in`")
        return self

    @model_validator(mode="after")
    def _check_blame(self) -> FailureRuleEntry:
        if self.blame == Blame.USER.value and self.action in NOT_FOR_USERS:
            raise wrong(
                f"`blame: user` and `action: {self.action}` contradict each other: the user's "
                "mistakes are neither retried for free nor held against a node"
            )
        return self
