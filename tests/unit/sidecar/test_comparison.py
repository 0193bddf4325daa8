import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmpod.sidecar.comparison import Comparison, compare, samples
from warmpod.sidecar.golden import GoldenAnswer

PARIS = GoldenAnswer("Paris is big", ("Paris", " is", " big"), (-0.1, -1.25, -0.5))


@pytest.mark.parametrize("number", [1, 8, 64])
def test_samples_are_always_the_same_and_no_two_alike(number: int) -> None:
    prompts = samples(number)
    assert len(set(prompts)) == number
    assert prompts == samples(64)[:number]


@pytest.mark.parametrize(
    ("ours", "differing", "largest", "first"),
    [
        pytest.param(PARIS, 0, 0.0, "", id="the same"),
        pytest.param(
            GoldenAnswer(PARIS.text, PARIS.tokens, (-0.1, -1.0, -0.45)),
            0,
            0.25,
            "",
            id="other log probabilities",
        ),
        pytest.param(
            GoldenAnswer("Paris is old", ("Paris", " is", " old"), (-0.2, -1.25, -7.0)),
            1,
            0.1,
            'in sample 1: token 3 is " old", in the reference " big"',
            id="another token, whose log probability says nothing",
        ),
        pytest.param(
            GoldenAnswer("Paris is", ("Paris", " is"), (-0.1, -1.25)),
            1,
            0.0,
            'in sample 1: token 3 is missing, in the reference " big"',
            id="a shorter answer",
        ),
        pytest.param(
            GoldenAnswer(PARIS.text, PARIS.tokens, (-0.2, None, -0.5)),
            1,
            0.1,
            "in sample 1: token 2 has a log probability in one of them only",
            id="a log probability that is none",
        ),
        pytest.param(
            GoldenAnswer(PARIS.text, PARIS.tokens),
            1,
            0.0,
            "in sample 1: token 1 has a log probability in one of them only",
            id="no log probabilities",
        ),
        pytest.param(
            GoldenAnswer("Paris is Big", PARIS.tokens, PARIS.logprobs),
            1,
            0.0,
            "in sample 1: the text from character 10",
            id="another text of the same tokens",
        ),
    ],
)
def test_comparing(ours: GoldenAnswer, differing: int, largest: float, first: str) -> None:
    comparison = compare([PARIS], [ours])
    assert comparison.largest_logprob_difference == pytest.approx(largest)
    assert (comparison.samples, comparison.differing) == (1, differing)
    assert comparison.first_difference == first


def test_texts_are_compared_where_there_are_no_tokens() -> None:
    comparison = compare([GoldenAnswer("a"), GoldenAnswer("b")], [GoldenAnswer("a")] * 2)
    assert comparison.first_difference == "in sample 2: the text from character 1"


def test_an_answer_is_missing() -> None:
    with pytest.raises(ValueError, match="shorter"):
        compare([PARIS, PARIS], [PARIS])


@pytest.mark.parametrize(
    ("comparison", "line"),
    [
        (
            Comparison(8, 0, 0.03125, ""),
            "8 answers are the same; log probabilities differ by at most 0.0312",
        ),
        (
            Comparison(8, 2, 0.5, 'in sample 3: token 5 is " a", in the reference " b"'),
            '2 of 8 answers differ, first in sample 3: token 5 is " a", in the reference " b"; '
            "before that, log probabilities differ by at most 0.5000",
        ),
    ],
)
def test_the_line_for_people(comparison: Comparison, line: str) -> None:
    assert str(comparison) == line


@st.composite
def answers(draw: st.DrawFn) -> GoldenAnswer:
    tokens = tuple(draw(st.lists(st.sampled_from(["a", "b"]), max_size=4)))
    values = st.none() | st.floats(-20, 0)
    return GoldenAnswer("".join(tokens), tokens, tuple(draw(values) for _ in tokens))


PAIRS = st.lists(st.tuples(answers(), answers()), max_size=5)


@given(PAIRS, st.randoms())
def test_figures_depend_on_neither_order_nor_direction(
    pairs: list[tuple[GoldenAnswer, GoldenAnswer]], shuffler: random.Random
) -> None:
    def figures(some: list[tuple[GoldenAnswer, GoldenAnswer]]) -> tuple[int, float]:
        found = compare([one for one, _ in some], [other for _, other in some])
        assert bool(found.first_difference) is (found.differing > 0)
        return found.differing, found.largest_logprob_difference

    expected = figures(pairs)
    assert expected[0] <= len(pairs)
    assert math.isfinite(expected[1])
    assert figures([(other, one) for one, other in pairs]) == expected
    assert figures(shuffler.sample(pairs, len(pairs))) == expected


@given(st.lists(answers(), max_size=5))
def test_answers_do_not_differ_from_themselves(some: list[GoldenAnswer]) -> None:
    assert compare(some, some) == Comparison(len(some), 0, 0.0, "")
