"""The agent's side of the protocol with the ApplicationMaster."""
