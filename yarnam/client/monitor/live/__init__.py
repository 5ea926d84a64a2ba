"""What is read again and again while jobs run."""
