"""The data of a task: inputs fetched to the node, checkpoints uploaded from it."""
