"""Which files of a job's inputs are not read, and what is known of suspected ones."""
