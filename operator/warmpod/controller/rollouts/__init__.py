"""Rollouts: when the pods of a new revision come, how they take the place of the old ones, and
whether they may.

What decides is pure functions of what was observed. `weights_first` says when the Deployment gets a
revision; `steps` with how much room, which `nodes.surge` computes; `verdict` whether its first pod
is good enough, by `baseline` and `failures`; `marking` is what is written down of it.
"""
