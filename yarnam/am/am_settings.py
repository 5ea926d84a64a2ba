"""The named limits of the ApplicationMaster itself (those of the job are in its spec)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AmSettings:
    """Times in seconds."""

    plan_patience_s: float = 120.0
    """How long one request to the planner waits for a ResourceManager that does not answer (a
    fail-over takes half a minute to a minute). After that the gang machine learns that nothing
    fits; it backs off and requests again."""
    plan_retry_first_s: float = 0.5
    plan_retry_cap_s: float = 10.0
    ticket_patience_s: float = 2.0
    """From the AM's start until it continues without a ticket queue that does not answer. It
    connects while the AM starts, so this costs time only when ZooKeeper is down."""
    ticket_grace_s: float = 15.0
    """How long a waiting job waits for a ticket queue that has gone away: longer than a session's
    timeout and an election of ZooKeeper's. Then it goes by jitter alone."""
    sign_of_life_s: float = 15.0
    """How often a job whose containers are on their way renews its ticket. Others pass over a job
    that is silent for 60 s (``admission.wait_queue.SILENT_AFTER_S``)."""
    shrink_delay_s: float = 2.0
    """Seconds after a grant before the ticket gets smaller: longer than the age of any poll that a
    reader goes by."""
    last_reason_s: float = 1.0
    """Seconds before the end of all waiting at which the gang machine gets the reason why the job
    waits."""
    journal_patience_s: float = 300.0
    """How long a journal that cannot be written (HDFS restarts, fails over) holds the AM back.
    Running tasks continue meanwhile. Then this AM attempt ends with UNAVAILABLE."""
    store_patience_s: float = 60.0
    """The same for the verdict, which the journal can replace."""
    retry_pause_s: float = 2.0
    policy_look_s: float = 5.0
    """Between two looks at the policy of the queue, each shortened or prolonged by up to a quarter.
    A look of a job whose queue has no policy is one small call of ZooKeeper's."""
    queue_period_s: float = 60.0
    """How often the ResourceManager is asked which queue the job is in: an administrator may move
    it. 1,000 jobs ask 17 times a second."""
    closures_period_s: float = 10.0
    """How often a job looks whether an administrator has cordoned nodes or stopped its queue: one
    call of ZooKeeper's where nothing is closed, else up to four."""
    awaited_jobs_period_s: float = 10.0
    """How often a job that waits for others asks the ResourceManager about those that have not
    ended, shortened or prolonged by up to a quarter. 1,000 such jobs ask 100 times a second."""
    status_period_s: float = 1.0
    """Seconds between two checks of the metrics for the published status."""
    ledger_period_s: float = 30.0
    """How often the status is published while nothing changes but what the time was used for."""
    progress_period_s: float = 5.0
    """How often the progress is reported to YARN; its own pages refresh no faster."""
    recheck_s: float = 30.0
    """How long a failed job waits at its end for open checks of suspected inputs; its verdict then
    names the corrupt file. A check takes a second, or as long as reading the file."""
    check_patience_s: float = 120.0
    """How long a gang that has failed waits for such checks before it is acquired anew; a check may
    take as long as reading the file on two nodes."""
    notify_limit_s: float = 20.0
    """How long the job's end waits for its notifications: two tries of a receiver that is slow."""
    farewell_s: float = 3.0
    """How long the agents have to fetch their order to leave before the application ends."""
    leave_pause_s: float = 0.2
    """How long they then have to end by themselves: an agent that leaves takes about 50 ms."""
