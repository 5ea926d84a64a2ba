"""The settings of the process in its job, and its calls to the agent."""
