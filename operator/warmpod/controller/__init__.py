"""The operator: events in, desired state out.

Start with `reconcile`: `observe` gathers what is `observed`, `facts` sums it up, `plan` decides,
and `apply` writes. `main` puts the parts together. What these stand on, and what they decide with,
is in the packages.
"""
