"""The ResourceManager's REST API."""
