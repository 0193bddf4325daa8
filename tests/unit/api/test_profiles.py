"""What a profile fills in: only what the spec does not state."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from unit.resources.samples import warm_model
from warmpod.api.crd import crd
from warmpod.api.profiles import PROFILES, STATED_ONLY
from warmpod.api.v1alpha1 import ProfileName


def test_each_word_of_the_api_has_a_profile() -> None:
    assert list(get_args(ProfileName)) == list(PROFILES)


@pytest.mark.parametrize(
    ("profile", "replicas", "state", "store"),
    [
        (None, 0, "Awake", "Pod"),
        ("HighThroughput", 1, "Awake", "Node"),
        ("MultiModel", 0, "Sleeping", "Node"),
        ("Serverless", 1, "Sleeping", "Node"),
        ("CostSaving", 0, "Awake", "Node"),
    ],
)
def test_what_is_filled_in(profile: str | None, replicas: int, state: str, store: str) -> None:
    """What is released here stays: an upgrade would make new revisions of it."""
    spec = warm_model(profile=profile).spec if profile else warm_model().spec
    found = spec.standby.replicas, spec.standby.state, spec.compile_cache.store
    assert found == (replicas, state, store)


@pytest.mark.parametrize(
    ("stated", "replicas", "state", "store"),
    [
        ({"standby": {"replicas": 0}}, 0, "Sleeping", "Node"),
        ({"standby": {"state": "Awake"}}, 1, "Awake", "Node"),
        ({"standby": {"replicas": 3, "maxUnfilledSeconds": 60}}, 3, "Sleeping", "Node"),
        ({"compileCache": {"store": "Pod"}}, 1, "Sleeping", "Pod"),
        ({"standby": {}, "compileCache": {}}, 1, "Sleeping", "Node"),
    ],
)
def test_what_is_stated_wins_even_if_it_is_the_usual_default(
    stated: dict[str, Any], replicas: int, state: str, store: str
) -> None:
    spec = warm_model(profile="Serverless", **stated).spec
    found = spec.standby.replicas, spec.standby.state, spec.compile_cache.store
    assert found == (replicas, state, store)


SPEC = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def test_rules_ask_whether_a_field_is_there_before_they_read_it() -> None:
    """The API server refuses every object that a rule reads an absent field of."""
    for part, name in STATED_ONLY:
        rules = SPEC["properties"][part].get("x-kubernetes-validations", [])
        reading = [each["rule"] for each in rules if f"self.{name}" in each["rule"]]
        assert [rule for rule in reading if f"has(self.{name})" not in rule] == []


def test_the_api_server_fills_in_nothing_that_a_profile_may_set() -> None:
    """It would look stated."""
    for part, name in STATED_ONLY:
        node = SPEC["properties"][part]
        assert "default" not in node["properties"][name]
        assert name not in node.get("default", {})
    filled = {
        (part, name)
        for profile in PROFILES.values()
        for part, values in (("standby", profile.standby), ("compileCache", profile.compile_cache))
        for name in values
    }
    assert filled == set(STATED_ONLY)
