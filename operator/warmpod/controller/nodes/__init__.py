"""Nodes: which of them an engine could land on, whose turn it is to pull onto them, and whether
they have room for one pod more.

What decides is pure functions of what they are given: `eligibility`, `preflight`, `turns`, `pods`,
`surge`. `fleet` holds what was seen of all nodes; `sizes`, `disks` and `surge_nodes` ask
registries, kubelets and the API server; `actions` and `taints` change pods and nodes.
"""
