"""What the pool decides on, taken from what was observed."""

from __future__ import annotations

from datetime import datetime, timedelta

from warmpod.api import WarmModel
from warmpod.controller import demand
from warmpod.controller.objects.views import WorkloadView
from warmpod.controller.observed import Observed
from warmpod.controller.pool.decision import Situation
from warmpod.controller.rollouts import verdict

#: The Deployment controller's word for a rollout that is done; it keeps it when pods are not Ready
#: later (k8s.io/kubernetes/pkg/controller/deployment/util: NewRSAvailableReason).
_DONE = "NewReplicaSetAvailable"


def of(observed: Observed, model: WarmModel, now: datetime) -> Situation:
    workload = observed.deployment
    verdicts = verdict.of(observed, model)
    fallback = verdicts.fallback
    current = fallback.revision.hash if fallback is not None else observed.target
    return Situation(
        pods=observed.engine_pods,
        demand=demand.of(model, now, observed.known),
        current=current,
        sleeping=model.spec.standby.state == "Sleeping",
        unaccepted=verdicts.unaccepted,
        idle=observed.idle,
        grace=timedelta(seconds=model.spec.pod.termination_grace_period_seconds),
        desired=workload.desired if workload is not None else None,
        rolled_out=workload is not None and _is_rolled_out(workload, current),
        now=now,
    )


def _is_rolled_out(workload: WorkloadView, current: str) -> bool:
    progressing = workload.conditions.get("Progressing")
    done = progressing is not None and progressing.reason == _DONE
    return workload.observed and workload.template == current and done
