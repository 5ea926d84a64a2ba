"""The commands about jobs that have ended: ``yarnam history`` and ``yarnam usage``."""
