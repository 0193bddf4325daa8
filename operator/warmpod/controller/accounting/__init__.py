"""What warm pods in reserve were good for, and what they cost.

`ledger` judges the changes of one WarmModel's pods, `accounts` keeps the ledgers of all and is told
of each change, `report` writes the sums into the status, `metrics` shows them to Prometheus.
"""
