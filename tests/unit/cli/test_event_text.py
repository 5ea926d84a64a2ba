"""Every event has its words."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from tests.unit.gang.play import Play, job
from yarnam.cli.rendering.event_text import event_text
from yarnam.core.accounting.task_names import task_names
from yarnam.core.failures.process_failure import UNKNOWN
from yarnam.core.gang import describe
from yarnam.core.model import events as ev
from yarnam.core.model.events import Event
from yarnam.core.model.ids import AskId, ContainerId, NodeId, RackId
from yarnam.core.model.job_status import AwaitedJob
from yarnam.core.model.outcomes import (
    ContainerEnd,
    ExitKind,
    IdleCause,
    IdleGpus,
    NodeMeasures,
    ProcessExit,
    Straggler,
)
from yarnam.core.model.plans import LocalityLevel, NoFit, PlacementPlan, Reason, Rung

ASK = AskId(1, "worker", 0)
HANG = replace(UNKNOWN, line="no step for 60 s")
RUNG = Rung(2, LocalityLevel.RACK, (), 0.5, "all in /rack1")

TOLD: list[tuple[Event, str]] = [
    (ev.InputsRefused(1.0, "a.npy is corrupt"), "inputs refused: a.npy is corrupt"),
    (ev.JobStarted(1.0), "ApplicationMaster started"),
    (ev.AmRestarted(1.0, 2), "AM attempt 2"),
    (ev.PlanReady(1.0, 1, PlacementPlan((RUNG,))), "rung 2, RACK: all in /rack1"),
    (
        ev.PlanRefused(1.0, 1, NoFit(Reason.TOO_FEW_FREE_GPUS, False, "2 short")),
        "not now, too-few-free-gpus): 2 short",
    ),
    (ev.JitterDrawn(1.0, 1, 0.25), "0.250"),
    (
        ev.ContainerGranted(1.0, ASK, ContainerId("c7"), NodeId("n1"), RackId("/r1")),
        "worker request 0 (attempt 1): granted on n1 (/r1), c7",
    ),
    (ev.ContainerEnded(1.0, ASK, ContainerEnd.LOST, "node lost"), "container lost: node lost"),
    (
        ev.AgentRegistered(1.0, ASK, ContainerId("c7"), NodeId("n1"), "n1", ("0", "1"), ()),
        "ready on n1, GPUs 0,1",
    ),
    (ev.AgentUnable(1.0, ASK, "no port"), "no port"),
    (ev.AgentSilent(1.0, ASK, 8.25), "8.2 s"),
    (
        ev.NodeChecked(1.0, ASK, 1, 1, NodeMeasures(900.0, trouble=("disk full",))),
        f"{ASK.words}: node checked: CPU (SHA-256, one core) 900 MiB/s; disk full",
    ),
    (ev.TaskStaged(1.0, ASK, 1), "inputs staged"),
    (ev.TaskReady(1.0, ASK, 1), "ready for the roles that start after it"),
    (ev.TaskStarted(1.0, ASK, 1), "all processes started"),
    (
        ev.StragglersFound(1.0, 1, (Straggler(3, "n2", 0.8, 0.4, 1.5),)),
        "stragglers: rank 3 on n2 computes 0.8 s in a step",
    ),
    (ev.StragglersFound(1.0, 1, ()), "no straggler slows the gang"),
    (
        ev.IdleGpusFound(1.0, 1, IdleGpus(6.0, 300.0, IdleCause.INPUT, 1.5, 2.0**20)),
        "busy 6 % of the time over 5 min of training; they probably wait for input: each process",
    ),
    (ev.IdleGpusFound(1.0, 1, None), "the GPUs are busy again"),
    (ev.ConditionChanged(1.0, 1, "memory", "close to its limit"), "memory: close to its limit"),
    (ev.LossFlat(1.0, 1, "the loss has been flat"), "the loss has been flat"),
    (ev.NotebookIdle(1.0, 1, "for 2h no kernel was busy"), "unused: for 2h no kernel was busy"),
    (ev.GangHung(1.0, 1, (2,), HANG), "the gang hangs: no step for 60 s"),
    (
        ev.TaskFailing(1.0, ASK, 1, (ProcessExit(1, ExitKind.SIGNAL, signal=9),)),
        f"{ASK.words}: a process failed: 1 signal 9",
    ),
    (
        ev.TaskExited(
            1.0,
            ASK,
            1,
            (
                ProcessExit(0, ExitKind.NON_ZERO, code=3),
                ProcessExit(1, ExitKind.SIGNAL, signal=9),
                ProcessExit(2, ExitKind.OK),
            ),
        ),
        "0 non-zero 3, 1 signal 9, 2 ok",
    ),
    (ev.TrainingReported(1.0, 1, 40, saved_step=20), "step 40, checkpoint of step 20 saved"),
    (
        ev.CheckpointMirrored(1.0, 1, 4, 2, 3 << 20, 0.5),
        "set 4 of the mirrored files is kept: 2 files, 3.0 MiB",
    ),
    (ev.TimerFired(1.0, ev.TimerId(ev.TimerKind.HOLD, 3)), "hold@3"),
    (ev.CancelRequested(1.0, "me", "enough"), "cancelled by me: enough"),
    (ev.NodesSuspected(1.0, (NodeId("n1"), NodeId("n2"))), "problems with n1, n2"),
    (ev.ContainersMarked(1.0, (ASK,)), "about to preempt worker"),
    (ev.ContainersMarked(1.0, (), "ann"), "ann interrupted the gang"),
    (ev.NodeLeaving(1.0, NodeId("n1"), 40.0), "n1 leaves the cluster in 40 s"),
    (ev.ScaleRequested(1.0, "me", 4), "me requested 4 tasks"),
    (ev.SuspendRequested(1.0, "ann", 60.0, "a demo"), "suspended by ann: a demo"),
    (ev.ResumeRequested(1.0, "bob"), "resumed by bob"),
    (ev.ClusterSeen(1.0, 1, 2, 1, 3), "2 tasks more fit, 3 jobs waiting, 1 task above"),
    (ev.GroupFormed(1.0, 1, 2, 4), "the framework formed group 2, of 4 tasks"),
    (
        ev.NodesCordoned(1.0, (ev.CordonedNode(NodeId("n1"), "cordoned by ann: disk"),)),
        "nodes closed to gangs: n1 (cordoned by ann: disk)",
    ),
    (ev.NodesCordoned(1.0, ()), "nodes closed to gangs: none"),
    (
        ev.AwaitedJobsSeen(1.0, (AwaitedJob("application_1_1", "prep", needs_success=True),)),
        "waits for prep (application_1_1) to succeed",
    ),
    (ev.BrokerFailed(1.0, "gone"), "failed: gone"),
    (
        ev.SessionBegun(1.0, "5e55", "ann", ASK, "exec", "nvidia-smi -l"),
        "ann opened session 5e55 in a1.worker.0, exec: nvidia-smi -l",
    ),
    (
        ev.SessionClosed(2.0, "5e55", ASK, 61.5, "exit code 3"),
        "session 5e55 in a1.worker.0 ended after 61.5 s: exit code 3",
    ),
    (ev.OutputsStored(1.0, 2, 12, 3 << 20), "outputs stored: 12 files, 3.0 MiB"),
    (ev.StoringTroubled(1.0, 2, "safe mode"), "delayed: safe mode"),
    (ev.StoringFailed(1.0, 2, 65, "is there already"), "outputs failed: is there already"),
]


@pytest.mark.parametrize(("event", "words"), TOLD, ids=lambda v: type(v).__name__)
def test_words(event: Event, words: str) -> None:
    assert words in event_text(event)


def test_a_task_has_the_name_that_status_shows_and_its_attempt_where_there_were_several() -> None:
    play = Play(job(workers=2, processes=1)).to_running()
    first = play.asks()
    names = task_names(play.spec, play.events)
    assert sorted(names.values()) == ["worker-0", "worker-1"]
    status = describe(play.gang, play.now_s)
    assert {task.ask: task.name for task in status.tasks} == {str(a): n for a, n in names.items()}
    assert event_text(ev.TaskStarted(1.0, first[0], 1), names) == "worker-0: all processes started"
    play.restart_am()
    play.to_next_attempt().grant_all().register_all()
    play.start_all()
    again = task_names(play.spec, play.events)
    assert again[first[0]] == "worker-0 (attempt 1)"
    assert "worker-0 (attempt 2)" in again.values()


def test_no_event_is_without_words() -> None:
    assert {type(event) for event, _ in TOLD} == set(get_args(Event))
