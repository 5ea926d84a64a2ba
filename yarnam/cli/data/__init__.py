"""Commands on data, checkpoints and the input blacklist."""
