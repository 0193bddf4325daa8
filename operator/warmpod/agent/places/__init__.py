"""Where weights lie that engines read, one module a kind of place, and what the keeper wants of
each."""
