"""Where the time of a start-up goes: computed once, for the operator, the sidecar and the command
line alike. Pure."""
