"""Distribution."""
