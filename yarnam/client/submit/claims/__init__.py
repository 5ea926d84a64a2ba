"""Claims on the directories that a job writes to, so that two jobs never share one."""
