"""Reports of the process to its agent."""
