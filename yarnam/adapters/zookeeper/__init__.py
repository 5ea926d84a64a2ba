"""Tickets, hints and notifications in ZooKeeper."""
