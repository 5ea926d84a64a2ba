"""What became of a job's time and GPUs: the ledger, and what is added up over many jobs."""
