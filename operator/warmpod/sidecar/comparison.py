"""How much the answers of two settings of an engine differ: spec.warmup.compare. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from warmpod.sidecar.golden import GoldenAnswer, first_difference, quoted

# Long enough that a difference in the kernels adds up to another token.
ANSWER_TOKENS = 64

# Kinds of text that models answer differently: facts, lists, code, numbers, other languages.
TASKS = (
    "Explain in two sentences what {} is.",
    "Write a Python function that has to do with {}.",
    "List five words that come to mind about {}, separated by commas.",
    "If {} costs 37 coins and you buy 12 of it, how much do you pay? Think step by step.",
    "Écris une phrase en français sur {}.",
    "Write the beginning of a story about {}.",
    "Give a JSON object that describes {}, with the keys name, size and colour.",
    "Schreibe einen Satz auf Deutsch über {}.",
    "Compare {} with a river.",
    "用一句话介绍 {}。",
    "Ask three questions about {}.",
    "Write an SQL query over a table that holds {}.",
    "Is {} older than the wheel? Answer yes or no, and why.",
    "Write a short poem about {}.",
    "Summarise the history of {} in one paragraph.",
    "Spell {} backwards, letter by letter.",
)
SUBJECTS = ("bread", "a lighthouse", "the number seven", "the Moon")


@dataclass(frozen=True, slots=True)
class Comparison:
    """`largest_logprob_difference` is over all tokens up to the first that differs.
    `first_difference` describes it in the first sample that has one; else it is empty."""

    samples: int
    differing: int
    largest_logprob_difference: float
    first_difference: str

    def numbers(self) -> dict[str, float]:
        """For the time line."""
        return {
            "samples": self.samples,
            "differing": self.differing,
            "largest": self.largest_logprob_difference,
        }

    def __str__(self) -> str:
        """One line for people."""
        largest = f"log probabilities differ by at most {self.largest_logprob_difference:.4f}"
        if not self.differing:
            return f"{self.samples} answers are the same; {largest}"
        return (
            f"{self.differing} of {self.samples} answers differ, first {self.first_difference}; "
            f"before that, {largest}"
        )


def samples(number: int) -> tuple[str, ...]:
    """Always the same prompts, no two of 64 alike."""
    tasks, subjects = len(TASKS), len(SUBJECTS)
    return tuple(
        TASKS[i % tasks].format(SUBJECTS[(i + i // tasks) % subjects]) for i in range(number)
    )


def compare(reference: Sequence[GoldenAnswer], ours: Sequence[GoldenAnswer]) -> Comparison:
    """Compare answers to the same prompts, in the same order. Raises ValueError when one is
    missing."""
    differences: list[str] = []
    largest = 0.0
    for number, (theirs, mine) in enumerate(zip(reference, ours, strict=True), start=1):
        difference, logprob_difference = _compare(theirs, mine)
        largest = max(largest, logprob_difference)
        if difference:
            differences.append(f"in sample {number}: {difference}")
    return Comparison(len(ours), len(differences), largest, next(iter(differences), ""))


def _compare(reference: GoldenAnswer, ours: GoldenAnswer) -> tuple[str, float]:
    """Where the two part, empty if they do not, and the largest difference of log probabilities
    up to there."""
    largest = 0.0
    alike = first_difference(reference.tokens, ours.tokens)
    pairs = zip_longest(reference.logprobs[:alike], ours.logprobs[:alike])
    for number, (theirs, mine) in enumerate(pairs, start=1):
        if (theirs is None) != (mine is None):
            return f"token {number} has a log probability in one of them only", largest
        if theirs is not None and mine is not None:
            largest = max(largest, abs(theirs - mine))
    if alike < max(len(reference.tokens), len(ours.tokens)):
        return f"token {alike + 1} {_parting(reference, ours, alike)}", largest
    if reference.text != ours.text:
        at = first_difference(reference.text, ours.text)
        return f"the text from character {at + 1}", largest
    return "", largest


def _parting(reference: GoldenAnswer, ours: GoldenAnswer, at: int) -> str:
    def shown(tokens: tuple[str, ...]) -> str:
        return quoted(tokens[at]) if at < len(tokens) else "missing"

    return f"is {shown(ours.tokens)}, in the reference {shown(reference.tokens)}"
