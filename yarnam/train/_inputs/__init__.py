"""The job's inputs, shared among its processes."""
