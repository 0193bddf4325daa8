"""Nodes: which of them an engine could land on, and whose turn it is to pull onto them.

Everything that decides is a pure function of what the modules are given; `fleet`, `stats` and
`taints` hold what was seen and talk to the cluster.
"""
