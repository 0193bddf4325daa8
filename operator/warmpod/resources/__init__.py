"""Pure builders of the objects that a WarmModel becomes, one module a child object.

They return plain dicts of JSON types in a fixed order, without empty maps or lists: what is
rendered twice is equal byte for byte, and what the API server stores equals what was sent.
"""
