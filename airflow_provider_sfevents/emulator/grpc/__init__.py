"""The Pub/Sub API over gRPC: every RPC, its streams and their credit."""
