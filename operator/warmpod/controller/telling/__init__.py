"""How the operator tells what it found and did: conditions, events, metrics.

What it tells of a WarmModel as a whole is in `controller/status`.
"""
