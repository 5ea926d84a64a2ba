"""Plans and forecasts before a submission."""
