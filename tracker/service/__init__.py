"""The service: the asynchronous shell around the core, its gRPC and HTTP edges, and their wiring."""
