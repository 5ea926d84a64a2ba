"""The output of a job: live, and as YARN keeps it."""
