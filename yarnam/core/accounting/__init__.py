"""The use of a job's time and GPUs: the ledger, and its sums over many jobs."""
