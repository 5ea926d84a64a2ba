"""Builds an ApplicationMaster on its ports: the real ones in a container, fakes in tests."""

from __future__ import annotations

from yarnam.am.admission_poller import AdmissionPoller
from yarnam.am.am_ports import AmPorts, PortExecutors
from yarnam.am.am_settings import AmSettings
from yarnam.am.executor import Executor
from yarnam.am.loop import AmParts, ApplicationMaster, EventInbox
from yarnam.am.output_storer import OutputStorer
from yarnam.am.plan_service import PlanService
from yarnam.am.probes.gang_observers import GangObservers
from yarnam.am.probes.policy_watcher import PolicyWatcher
from yarnam.am.status_report import AmFacts
from yarnam.am.ticket_holder import TicketHolder
from yarnam.wire.light_imports import on_first_use
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
    holder = TicketHolder(
        record.job, record.targets, facts.application, ports.ticket_queue, executors.ticket_queue,
        clock, settings, am.remember, ports.sleep, am.policy_ticket,
    )  # fmt: skip
    admission = AdmissionPoller(
        holder, executors.view, clock, settings, ports.draw, ports.sleep, am.wait_ends_at_s,
        respects_cells=record.job.placement.cells,
    )  # fmt: skip
    planning = PlanService(
        record, ports.view, executors.view, clock, inbox, settings, ports.sleep, am.waiters,
        admission, am.open_checks,
    )  # fmt: skip
    storing = OutputStorer(
        record.job, ports.outputs, executors.outputs, clock, inbox, settings, ports.sleep
    )
    executor = Executor(
        ports.broker, ports.mailbox, clock, planning, inbox, ports.draw, executors.broker,
        executors.mailbox, ports.hints, executors.courtesy, storing,
    )  # fmt: skip
    observers = GangObservers(record.job, ports.mailbox, executors.mailbox, clock, inbox)
    policy = PolicyWatcher(
        record.job, holder, ports.view, executors.view, clock, inbox, settings, ports.draw,
        ports.sleep,
    )  # fmt: skip
    inputs = None
    if ports.data is not None:
        inputs = input_integrity.InputIntegrity(
            record.job, facts.application, ports.data, ports.store, inbox, clock.now_s
        )
    notify = None
    if ports.notify is not None:
        notify = notifier.Notifier(
            record.job.notify, ports.notify, ports.store, executors.notify, settings, ports.sleep
        )
    return AmParts(
        inbox,
        clock,
        executors,
        holder,
        admission,
        planning,
        storing,
        executor,
        observers,
        policy,
        inputs,
        notify,
    )
