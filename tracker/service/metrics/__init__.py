"""What the service shows to Prometheus: which families there are, where their numbers come from, and how they are written."""
