"""The Fair Scheduler's queues: their configuration, their shares, and what follows for gangs."""
