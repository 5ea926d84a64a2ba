"""What a task reads and writes: inputs fetched to the node, checkpoints uploaded from it."""
