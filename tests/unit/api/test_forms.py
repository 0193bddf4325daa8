"""Texts that have to look in some way: model and schema refuse the same, and say the same."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from unit.controller.builders import warm_model
from warmpod.api import InvalidSpec, WarmModel
from warmpod.api.base import Form, rule
from warmpod.api.cost import Cost

SHORT = Form("^[ab]+$", "short has a and b: use for example ab")
TEXT: TypeAdapter[str] = TypeAdapter(Annotated[str, Field(max_length=4), SHORT])


def test_what_has_the_form_is_taken_as_it_is() -> None:
    assert TEXT.validate_python("abba") == "abba"


@pytest.mark.parametrize("text", ["", "c", "ab\n", "xab"])
def test_what_has_not_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(ValidationError, match="use for example ab"):
        TEXT.validate_python(text)


@pytest.mark.parametrize("value", [3, None, "ababa"])
def test_type_and_length_come_first(value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        TEXT.validate_python(value)
    assert "use for example" not in str(caught.value)


def test_the_schema_has_a_rule_and_no_pattern() -> None:
    assert TEXT.json_schema() == {
        "type": "string",
        "maxLength": 4,
        "x-kubernetes-validations": [rule("self.matches(r'^[ab]+$')", SHORT.message)],
    }


def test_further_rules_stand_behind_it() -> None:
    more = rule("self != 'abba'", "short is not abba: use for example ab")
    schema = TypeAdapter(Annotated[str, Form("^[ab]+$", "m", also=(more,))]).json_schema()
    assert [each["message"] for each in schema["x-kubernetes-validations"]] == [
        "m",
        more["message"],
    ]


@pytest.mark.parametrize("price", ["0", "2.50", "999999.999999"])
def test_prices(price: str) -> None:
    assert Cost(per_gpu_hour=price).per_gpu_hour == price


@pytest.mark.parametrize("price", ["", "2,50", "2.50 €", "-1", "1e3", ".5", "1000000", "2.50\n"])
def test_what_is_no_price_is_refused(price: str) -> None:
    with pytest.raises(ValidationError, match=r'for example "2\.50"'):
        Cost(per_gpu_hour=price)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"cost": {"perGpuHour": "2,50"}}, "spec.cost.perGpuHour"),
        (
            {"schedule": [{"name": "a", "cron": "@daily", "durationSeconds": 60, "replicas": 1}]},
            "spec.schedule[0].cron",
        ),
    ],
)
def test_the_operator_says_the_same_of_what_was_stored_before(
    fields: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidSpec, match="use ") as caught:
        WarmModel.parse(warm_model(**fields))
    assert caught.value.path == path
