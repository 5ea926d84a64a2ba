"""What a task occupies on its node: GPUs, ports, an address."""
