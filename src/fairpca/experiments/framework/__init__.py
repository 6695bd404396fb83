"""Framework."""
