"""How the roles of a gang relate: ranks, start order, and when the gang is complete."""
