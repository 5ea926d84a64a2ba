"""What the ApplicationMaster looks for while a gang runs: room to grow, and hangs."""
