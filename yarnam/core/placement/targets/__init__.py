"""What a job declares to YARN at submit: targets and their ladder."""
