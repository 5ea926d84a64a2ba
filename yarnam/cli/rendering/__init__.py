"""What commands print: tables, status, plans, events."""
