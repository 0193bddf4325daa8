"""The store of what engines compile, on this node: only the agent writes to it."""
