"""The async shell around the core: trackers by name, effects against the storage, and the gRPC edge."""
