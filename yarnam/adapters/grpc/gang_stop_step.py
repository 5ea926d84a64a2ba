"""Collects from the agents after which step the gang can stop: see ``yarnam.agent.launch``."""

from __future__ import annotations

from dataclasses import dataclass, field

from yarnam.core.model.ids import AskId


@dataclass
class GangStopStep:
    """The agreement of one attempt; a later attempt begins its own."""

    attempt: int = 0
    expected: int = 0
    """How many tasks have to agree; 0 means none is to."""
    members: list[AskId] = field(default_factory=list)
    answers: dict[AskId, int | None] = field(default_factory=dict)

    def begin(self, ask: AskId, attempt: int, agreeing: int) -> None:
        """An order to stop goes to this task: one of ``agreeing`` that stop after the same step, or
        (0) one that stops on its own, which ends an agreement."""
        if attempt != self.attempt or not agreeing:
            self.attempt, self.expected = attempt, agreeing
            self.members, self.answers = [], {}
        if agreeing and ask not in self.members:
            self.members.append(ask)

    def take(self, ask: AskId, attempt: int, least: int | None) -> bool:
        """Note the answer of a task; whether it was the last one that was missing."""
        if attempt != self.attempt or ask not in self.members or ask in self.answers:
            return False
        self.answers[ask] = least
        return len(self.answers) == self.expected

    @property
    def step(self) -> int | None:
        """The step that all stop after; ``None`` means one of them does not say what it can."""
        told = [least for least in self.answers.values() if least is not None]
        return max(told) if len(told) == len(self.answers) else None
