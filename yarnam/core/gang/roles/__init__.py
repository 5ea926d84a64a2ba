"""What the roles of a gang are to each other: ranks, order, and when the gang is complete."""
