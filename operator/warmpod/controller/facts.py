"""What the observed pods and objects amount to: counts and problems, no decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from warmpod import reasons
from warmpod.api import WarmModel
from warmpod.controller import pool
from warmpod.controller.clients.resolver import NotFound
from warmpod.controller.diagnosis import autoscaling, mounts, problems
from warmpod.controller.diagnosis.problems import Area, Problem
from warmpod.controller.diagnosis.refused import Refusal
from warmpod.controller.nodes import pods, waiting
from warmpod.controller.nodes.pods import holds_images
from warmpod.controller.objects.engine_pods import is_serving, is_warm
from warmpod.controller.objects.views import PodView, parse_time
from warmpod.controller.observed import Observed, StoredRevision
from warmpod.controller.pool import PoolPlan, situation
from warmpod.controller.pool.members import State, state_of, time_of
from warmpod.controller.prefetch import rivalry
from warmpod.controller.rollouts import steps, verdict, weights_first
from warmpod.controller.rollouts.steps import Step
from warmpod.controller.rollouts.verdict import Verdicts
from warmpod.controller.telling.condition import STANDBY_READY
from warmpod.engine import facts_of, ignored_loader, ignored_profile
from warmpod.protocol import RESIDENT_CONDITION
from warmpod.resources import deployment, warmup_container
from warmpod.resources.names import PROMOTED_AT
from warmpod.resources.security import refusal

#: The same as the Deployment waits for before it lets an older pod go.
MIN_READY = timedelta(seconds=deployment.MIN_READY_SECONDS)
#: Reasons of warmpod.io/Resident that a pod gives only after its weights were verified.
VERIFIED_REASONS = frozenset(
    {
        reasons.RESIDENT,
        reasons.VERIFIED,
        reasons.LOADING,
        reasons.NOT_RESIDENT,
        reasons.RESIDENCY_NOT_MEASURABLE,
    }
)


@dataclass(frozen=True)
class Facts:
    pool: PoolPlan
    revision: str
    """Hash of what the spec asks for."""
    stored: bool
    """Whether that revision is in a ControllerRevision."""
    begun: bool
    """Whether engines run or could run, so that what is missing is missing and not just unknown."""
    serving: int
    """Serving pods that exist."""
    ready: int
    warm: int
    """Pods that are warm, Ready, of this revision, and not being deleted."""
    warm_serving: int
    """Of these, those that take traffic."""
    reachable: int
    """Of these, those that have for long enough that every node sends them some."""
    eligible: int | None
    """Nodes that should hold the model; None while that is not known for this revision."""
    prefetched: int
    resident: int
    queue: waiting.Queue | None
    """None when no prefetch pod waits for its turn."""
    unfit: Mapping[str, int]
    """Why nodes are not eligible, with how many, where none is and that is known."""
    nodes: weights_first.Nodes
    verified: bool
    """Whether the weights of this revision were verified on at least one node."""
    may_start: bool
    """Whether the Deployment may have this revision."""
    held_back: bool
    """Whether the Deployment has the previous revision until then."""
    verdicts: Verdicts
    coming: StoredRevision | None
    """The revision that the Deployment has or gets; None for no Deployment."""
    step: Step
    """How its pods take the place of others."""
    others: int
    """Serving pods of other revisions that are warm."""
    engine_pods: tuple[PodView, ...]
    """Of this revision, not being deleted."""
    prefetch_pods: tuple[PodView, ...]
    problems: tuple[Problem, ...]
    """Worst first, each reason once."""
    node_problems: tuple[Problem, ...]
    """Worst first, every node that has one."""
    unfilled_since: datetime
    """Since when standby pods are missing; now, where none were."""
    max_unfilled_seconds: int | None
    """None: they may be missing for ever."""
    now: datetime

    @property
    def wanted(self) -> int:
        """Serving pods that are to be warm by now."""
        return self.pool.demand.due

    @property
    def warm_pods(self) -> tuple[PodView, ...]:
        return tuple(filter(is_warm, self.engine_pods))

    @property
    def held_on_nodes(self) -> bool:
        """False when each engine pod holds a copy of its own, and agents only verify."""
        return not any(
            pod.is_true(RESIDENT_CONDITION)
            and pod.conditions[RESIDENT_CONDITION].reason == reasons.VERIFIED
            for pod in self.prefetch_pods
        )

    @property
    def previous_serves(self) -> bool:
        """Whether the previous revision does all that is asked for while this one is held back."""
        return self.held_back and 0 < self.wanted <= self.others

    @property
    def taken_back(self) -> bool:
        """Whether pods of this revision do not count any more."""
        return self.wanted > 0 and self.revision in self.verdicts.rejected

    @property
    def others_serve(self) -> bool:
        """Whether pods of another revision take traffic."""
        return self.ready > sum(pod.is_true("Ready") for pod in self.engine_pods)


def gather(observed: Observed, model: WarmModel, now: datetime) -> Facts:
    revision = observed.target
    serving = [pod for pod in observed.engine_pods if _serves(pod)]
    engines = observed.engine_pods_present
    prefetch = _prefetch_pods(observed)
    there = tuple(pod for pod in prefetch if pod.meta.uid not in observed.lost_images)
    eligible = _eligible(observed)
    verdicts = verdict.of(observed, model)
    found = sorted(
        _problems(observed, model, engines, prefetch, verdicts, now), key=lambda p: p.rank
    )
    nodes = weights_first.nodes(eligible, there, found, now)
    verified = any(map(has_verified, prefetch))
    started = observed.deployment is not None and observed.deployment.template == revision
    may_start = revision not in verdicts.rejected and (
        started
        or weights_first.may_start(
            nodes,
            verified=verified,
            waited_for=_is_waited_for(observed),
            returning=observed.nodes is not None and observed.nodes.returning,
        )
    )
    warm = [pod for pod in engines if is_warm(pod)]
    warm_serving = [pod for pod in warm if is_serving(pod)]
    coming = _coming(observed, verdicts, may_start=may_start)
    return Facts(
        pool=pool.decide(situation.of(observed, model, now)),
        revision=revision,
        stored=observed.present is not None,
        begun=observed.deployment is not None
        or (observed.present is not None and eligible is not None),
        serving=len(serving),
        ready=sum(pod.is_true("Ready") for pod in serving),
        warm=len(warm),
        warm_serving=len(warm_serving),
        reachable=sum(_is_reachable(pod, now) for pod in warm_serving),
        eligible=eligible,
        prefetched=sum(map(holds_images, there)),
        resident=sum(pod.is_true(RESIDENT_CONDITION) for pod in there),
        queue=waiting.queue(prefetch, observed.nodes),
        unfit=observed.nodes.unfit if observed.nodes else {},
        nodes=nodes,
        verified=verified,
        may_start=may_start,
        held_back=observed.deployment is not None and not may_start,
        verdicts=verdicts,
        coming=coming,
        step=_step(observed, model, coming, verdicts, now),
        others=sum(is_warm(pod) for pod in serving if pod not in engines),
        engine_pods=engines,
        prefetch_pods=prefetch,
        problems=problems.once_each(found),
        node_problems=tuple(problem for problem in found if problem.node),
        unfilled_since=_unfilled_since(observed, now),
        max_unfilled_seconds=model.spec.standby.max_unfilled_seconds,
        now=now,
    )


def _coming(observed: Observed, verdicts: Verdicts, *, may_start: bool) -> StoredRevision | None:
    """No engine starts on weights that nobody has verified, nor before it is written down what
    there is to go back to. Until then, the previous revision stays and goes on being scaled. Once
    started, a revision is taken back only for what its engines showed."""
    if may_start and verdict.beginning(observed) is None:
        return observed.present
    if verdicts.fallback is not None:
        return verdicts.fallback
    return observed.stored(observed.deployment.template) if observed.deployment else None


def _step(
    observed: Observed,
    model: WarmModel,
    coming: StoredRevision | None,
    verdicts: Verdicts,
    now: datetime,
) -> Step:
    if coming is None:
        return Step()
    return steps.step(observed, model, coming.revision.hash, verdicts, now)


def _is_reachable(pod: PodView, now: datetime) -> bool:
    since = pod.conditions["Ready"].since
    if since is None:
        return False
    return now - max(since, time_of(pod, PROMOTED_AT, now) or since) >= MIN_READY


def _unfilled_since(observed: Observed, now: datetime) -> datetime:
    """The condition remembers it."""
    for condition in (observed.view.body.get("status") or {}).get("conditions") or []:
        if condition.get("type") == STANDBY_READY and condition.get("status") == "False":
            return parse_time(condition.get("lastTransitionTime")) or now
    return now


def has_verified(pod: PodView) -> bool:
    resident = pod.conditions.get(RESIDENT_CONDITION)
    return resident is not None and resident.reason in VERIFIED_REASONS


def _serves(pod: PodView) -> bool:
    return is_serving(pod) and not pod.meta.deleting and pod.alive


def _eligible(observed: Observed) -> int | None:
    """Where nodes are not watched, those that the DaemonSet takes for eligible: it knows nothing of
    devices, and does not mind a node that is cordoned."""
    workload = observed.daemon_set
    if workload is None or not workload.observed:
        return None
    return workload.desired if observed.nodes is None else len(observed.nodes.eligible)


def _prefetch_pods(observed: Observed) -> tuple[PodView, ...]:
    """Those that count: on other nodes no engine will look for what they hold."""
    found = observed.prefetch_pods_present
    if observed.nodes is None:
        return found
    return tuple(pod for pod in found if pod.meant_for in observed.nodes.eligible)


def _is_waited_for(observed: Observed) -> bool:
    """Whether nothing is gained by waiting for more nodes than one: nothing serves meanwhile, or
    what serves has the same weights."""
    if observed.deployment is None:
        return True
    live = observed.stored(observed.deployment.template)
    return live is not None and live.revision.prefetch_hash == observed.weights


def _problems(
    observed: Observed,
    model: WarmModel,
    engines: tuple[PodView, ...],
    prefetch: tuple[PodView, ...],
    verdicts: Verdicts,
    now: datetime,
) -> Iterator[Problem]:
    yield from problems.of_failures(observed.failures)
    if rejected := verdict.problem(observed, verdicts):
        yield rejected
    yield from _creation(observed)
    yield from _refused(observed, model)
    yield from _notices(model)
    startups = (observed.view.body.get("status") or {}).get("lastStartups") or ()
    yield from autoscaling.problems(observed.autoscalers, startups, model.spec.standby.replicas)
    if not any(map(holds_images, prefetch)):
        yield from _missing_images(observed)
    for pod in prefetch:
        yield from problems.of_prefetch_pod(pod, now)
    yield from mounts.of_pods(prefetch, Area.WEIGHTS, observed.unmounted, model, now)
    yield from pods.problems(prefetch, observed.nodes)
    yield from rivalry.problems(observed, now)
    sleeping = model.spec.standby.state == "Sleeping"
    for pod in engines:
        if state_of(pod, sleeping=sleeping, now=now) is not State.ASLEEP:
            yield from problems.of_engine_pod(pod, now)
    yield from mounts.of_pods(engines, Area.ENGINE, observed.unmounted, model, now)


def _creation(observed: Observed) -> Iterator[Problem]:
    """A Deployment tells itself why its ReplicaSet cannot create pods; a DaemonSet does not."""
    yield from map(problems.of_refusal, observed.refusals)
    deployment = observed.deployment
    failure = deployment.conditions.get("ReplicaFailure") if deployment else None
    if deployment and failure and failure.status == "True":
        where = f"Deployment {deployment.meta.name}"
        yield problems.of_refusal(Refusal(where, failure.message, failure.since))


def _refused(observed: Observed, model: WarmModel) -> Iterator[Problem]:
    """Pod security only while nothing exists: what runs is judged by the API server alone."""
    message = None if observed.daemon_sets else refusal(model, observed.pod_security)
    if message is not None:
        yield Problem(reasons.POD_SECURITY_VIOLATION, message, Area.SPEC)
    too_large = warmup_container.refusal(model)
    if too_large is not None:
        yield Problem(reasons.WARMUP_TOO_LARGE, too_large, Area.SPEC)


def _notices(model: WarmModel) -> Iterator[Problem]:
    for unknown in facts_of(model.spec).unknown:
        yield Problem(reasons.UNKNOWN_ARGUMENT, str(unknown), Area.ENGINE)
    if ignored := ignored_loader(model.spec):
        yield Problem(reasons.LOADER_IGNORED, ignored, Area.ENGINE)
    if ignored := ignored_profile(model.spec):
        yield Problem(reasons.PROFILE_IGNORED, ignored, Area.ENGINE)


def _missing_images(observed: Observed) -> Iterator[Problem]:
    """Ahead of the kubelet, which finds out only when it has pulled everything before it."""
    for answer in observed.resolutions.values():
        if isinstance(answer, NotFound):
            message = f"{answer.message} — {reasons.IMAGE_NOT_FOUND.remedy}"
            yield Problem(reasons.IMAGE_NOT_FOUND, message, Area.IMAGES)
