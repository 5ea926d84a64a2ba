"""Commands that change a job that runs or waits."""
