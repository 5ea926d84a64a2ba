"""The state of a job: status, logs, verdict."""
