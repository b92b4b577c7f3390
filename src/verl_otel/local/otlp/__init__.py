"""OTLP in: requests over HTTP and gRPC, read, checked and handed to whoever keeps them."""
