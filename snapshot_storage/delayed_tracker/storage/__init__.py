"""Storage of bucket snapshots: the protocol, the codecs above it, the backends, and the contract suite for new ones."""
