"""What is cold, and what became warm."""

from engine_sim.buckets import Bucket, ColdBuckets, touched


def test_request_touches_one_bucket_per_feature() -> None:
    assert touched("chat", 16, 1, {"sampling"}) == [
        Bucket("chat", "short", "single", "plain"),
        Bucket("chat", "short", "single", "sampling"),
    ]


def test_prompt_length_and_concurrency_decide_the_bucket() -> None:
    kinds = {
        touched("chat", tokens, running, ())[0] for tokens in (1, 65, 1025) for running in (1, 2, 9)
    }
    assert len(kinds) == 9


def test_only_the_first_requests_of_a_bucket_are_cold() -> None:
    cold = ColdBuckets(cold_requests=2)
    plain = touched("chat", 1, 1, ())
    assert [bool(cold.touch(plain)) for _ in range(3)] == [True, True, False]


def test_new_feature_on_a_warm_bucket_is_cold_again() -> None:
    cold = ColdBuckets(cold_requests=1)
    cold.touch(touched("chat", 1, 1, ()))
    assert cold.touch(touched("chat", 1, 1, {"tools"})) == [
        Bucket("chat", "short", "single", "tools")
    ]
