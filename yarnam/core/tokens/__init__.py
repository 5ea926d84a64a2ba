"""When a job's delegation tokens are replaced."""
