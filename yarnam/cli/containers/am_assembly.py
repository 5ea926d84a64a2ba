"""Builds an ApplicationMaster on its ports: the real ones in a container, fakes in tests."""

from __future__ import annotations

from yarnam._light_imports import on_first_use
from yarnam.am.am_ports import AmPorts, PortExecutors
from yarnam.am.am_settings import AmSettings
from yarnam.am.executor import Executor
from yarnam.am.loop import AmParts, ApplicationMaster, EventInbox
from yarnam.am.output_storer import OutputStorer
from yarnam.am.plan_service import PlanService
from yarnam.am.probes.awaited_jobs_probe import AwaitedJobsProbe
from yarnam.am.probes.closures_probe import ClosuresProbe
from yarnam.am.probes.gang_observers import GangObservers
from yarnam.am.queue_client_shell import QueueClientShell
from yarnam.am.status_report import AmFacts
from yarnam.core.queue_client import ClientLimits, queued_job
from yarnam.wire.records import JobRecord

with on_first_use():
    # Loaded for jobs that notify somebody.
    from yarnam.am import notifier

    # Loaded for jobs that have inputs.
    from yarnam.am.inputs import input_integrity


def assemble_am(
    record: JobRecord, facts: AmFacts, ports: AmPorts, settings: AmSettings | None = None
) -> ApplicationMaster:
    """Ready to run. Nothing is opened yet, and no thread runs."""
    limits = settings or AmSettings()
    return ApplicationMaster(
        record, facts, ports, limits, lambda am: _parts(am, record, facts, ports, limits)
    )


def _parts(
    am: ApplicationMaster, record: JobRecord, facts: AmFacts, ports: AmPorts, settings: AmSettings
) -> AmParts:
    inbox, executors = EventInbox(), PortExecutors(ports.executor)
    clock = ports.clock(inbox)
    limits = ClientLimits(
        patience_s=settings.ticket_patience_s,
        grace_s=settings.ticket_grace_s,
        retry_s=settings.retry_pause_s,
        sign_of_life_s=settings.sign_of_life_s,
        shrink_delay_s=settings.shrink_delay_s,
        last_reason_s=settings.last_reason_s,
    )
    has_queue = ports.ticket_queue is not None
    queue = QueueClientShell(
        queued_job(record.job, record.targets, facts.application, limits, has_queue=has_queue),
        is_pre_run=record.job.pre_run.is_due,
        open_queue=ports.ticket_queue,
        queue_executor=executors.ticket_queue,
        view=ports.view,
        view_executor=executors.view,
        clock=clock,
        inbox=inbox,
        settings=settings,
        draw=ports.draw,
        gang=lambda: am.gang,
        describe=am.policy_ticket,
        wait_ends_at_s=am.wait_ends_at_s,
        remember=am.remember,
        sleep=ports.sleep,
    )
    planning = PlanService(
        record, ports.view, executors.view, clock, inbox, settings, ports.sleep, am.waiters,
        queue, am.open_checks,
    )  # fmt: skip
    storing = OutputStorer(
        record.job, ports.outputs, executors.outputs, clock, inbox, settings, ports.sleep
    )
    executor = Executor(
        ports.broker, ports.mailbox, clock, planning, inbox, ports.draw, executors.broker,
        executors.mailbox, ports.hints, executors.courtesy, storing,
    )  # fmt: skip
    observers = GangObservers(record.job, ports.mailbox, executors.mailbox, clock, inbox)
    inputs = None
    if ports.data is not None:
        inputs = input_integrity.InputIntegrity(
            record.job, facts.application, ports.data, ports.store, inbox, clock.now_s
        )
    notify = None
    if ports.notify is not None:
        notify = notifier.Notifier(
            record.job.notify, ports.notify, ports.store, ports.executor, settings, ports.sleep
        )
    awaited_jobs = AwaitedJobsProbe(
        ports.state_of, executors.courtesy, clock, inbox, settings, ports.draw, ports.sleep
    )
    closures = ClosuresProbe(
        ports.closures, executors.courtesy, clock, inbox, settings, record.job.am.stop_grace_s,
        ports.sleep,
    )  # fmt: skip
    return AmParts(
        inbox,
        clock,
        executors,
        queue,
        planning,
        storing,
        executor,
        observers,
        inputs,
        notify,
        awaited_jobs,
        closures,
    )
