"""Changes that others make to the objects that a WarmModel owns."""
