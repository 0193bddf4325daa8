"""How many cases hypothesis makes up for the properties that count them by the thousand."""

from hypothesis import settings

QUICK = "quick"
THOROUGH = "thorough"
QUICK_SHARE = 10


def generated(number: int) -> settings:
    """`number` cases with `--hypothesis-profile=thorough`, as in `make test`; else a tenth."""
    thorough = settings.get_current_profile_name() == THOROUGH
    cases = number if thorough else number // QUICK_SHARE
    return settings(max_examples=cases, database=None)
