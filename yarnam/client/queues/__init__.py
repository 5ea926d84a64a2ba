"""For those who administer the queues of the Fair Scheduler."""
