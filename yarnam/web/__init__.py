"""Pages and the API over HTTP: the ApplicationMaster's job page, and ``yarnam ui``. Read-only."""
