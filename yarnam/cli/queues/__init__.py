"""``yarnam queues`` and its subcommands."""
