"""The entry points of the containers: they build the ApplicationMaster and the agent."""
