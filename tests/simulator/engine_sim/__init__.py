"""A server that looks like vLLM from outside: ready, but cold until it was exercised."""
