"""Sessions of clients in the task: commands with pipes or a terminal, connections, copies."""
