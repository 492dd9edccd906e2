"""What the product costs, as ratios of one run: to what has to be done anyhow, and to a stored baseline."""
