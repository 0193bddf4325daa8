"""What the operator keeps of the cluster: a small view of each object, and the cache of them.

Watch events and `sweep` fill the cache; `views.project` makes a view of what the API server sent.
"""
