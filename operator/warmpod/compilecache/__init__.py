"""What an engine has compiled, kept for the next one: what decides reuse, the entries of a store,
and the names below it. Standard library only, Python 3.10 or newer: the launcher uses it, too.
"""
