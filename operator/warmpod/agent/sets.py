"""From the settings to the parts that keep each set of weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warmpod.agent.config import AgentConfig, Medium, WeightSet
from warmpod.agent.copies.nodecopy import NodeCopies
from warmpod.agent.places.inplace import InPlaceWeights
from warmpod.agent.places.nodememory import NodeMemoryWeights
from warmpod.agent.places.staged import StagedWeights
from warmpod.agent.places.weights import Check, Untouched, Weights, unchecked
from warmpod.weights.hashing import Watch


@dataclass(frozen=True)
class Copies:
    """The copies that this WarmModel shares with others of the node; None where it has none."""

    staged: NodeCopies | None
    memory: NodeCopies | None

    @classmethod
    def of(cls, config: AgentConfig) -> Copies:
        remote = [weights.key for weights in config.sets if weights.remote is not None]
        memory = config.medium is Medium.NODE_MEMORY
        return cls(
            NodeCopies(config.stage_root, config.model_uid, remote) if remote else None,
            NodeCopies(config.node_root, config.model_uid, [s.key for s in config.sets])
            if memory
            else None,
        )

    def __iter__(self) -> Iterator[NodeCopies]:
        return (copies for copies in (self.staged, self.memory) if copies is not None)


def place(config: AgentConfig, weights: WeightSet, copies: Copies, watch: Watch) -> Weights:
    """Where engines read this set, or, with PodMemory, where their pods copy it from. What `watch`
    raises ends a wait for somebody who must be asked about it."""
    check = _check(config, weights, watch)
    if copies.memory is None:
        return _origin(config, weights, copies, check)
    origin = (
        _origin(config, weights, copies, check)
        if weights.remote is not None
        else Untouched(weights.source, weights.origin, check, weights.lookup)
    )
    return NodeMemoryWeights(origin, copies.memory, weights.key)


def _origin(config: AgentConfig, weights: WeightSet, copies: Copies, check: Check) -> Weights:
    if weights.remote is not None and copies.staged is not None:
        return StagedWeights(
            copies.staged, weights.key, weights.remote, weights.credentials, weights.origin
        )
    receipt = config.state_dir / f"receipt-{_owner(weights)}.json"
    return InPlaceWeights(weights.source, receipt, weights.origin, check, weights.lookup)


def _owner(weights: WeightSet) -> str:
    """Whose receipt it is: of a directory that may be replaced, that one's and no other's."""
    if weights.lookup is None or not weights.source.is_dir():
        return weights.name
    facts = weights.source.stat()
    return f"{weights.name}-{facts.st_dev:x}-{facts.st_ino:x}"


def _check(config: AgentConfig, weights: WeightSet, watch: Watch) -> Check:
    if weights.verify is None:
        return unchecked
    # Cryptography takes memory that other agents need not pay for.
    from warmpod.agent.sources.signature import SignatureCheck
    from warmpod.agent.sources.signed_image import Wanted

    return SignatureCheck(Wanted.from_document(weights.verify), config.state_dir, watch).look
