"""Checkpoints of JAX and PyTorch objects."""
