"""The targets that a job declares to YARN at submit, and their ladder."""
