"""The process that outlives the agent and ends what it has started."""
