"""`kubectl warm` (also `warmpod`): what a person asks about a WarmModel."""
