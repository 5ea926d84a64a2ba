"""Jobs of the past under other queues."""
