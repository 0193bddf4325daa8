"""Nodes: which of them an engine could land on, and whose turn it is to pull onto them.

What decides is pure functions of what they are given: `eligibility`, `preflight`, `turns`, `pods`.
`fleet` holds what was seen of all nodes; `sizes` and `disks` ask registries and kubelets; `actions`
and `taints` change pods and nodes.
"""
