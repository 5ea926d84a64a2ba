"""What is known of a job: status, logs, verdict."""
