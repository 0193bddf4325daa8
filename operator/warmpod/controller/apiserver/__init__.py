"""Access to the API server: what kinds it has, requests, watch events, and the Lease."""
