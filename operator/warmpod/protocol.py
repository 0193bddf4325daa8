"""What the processes of warmpod know of each other: the names by which they meet.

Operator, agent, launcher and sidecar run in different containers and import nothing of each other;
a name that two of them use stands here. Standard library only, Python 3.10 or newer: the launcher
runs on the interpreter of the user's engine image.
"""

# The resource.
GROUP = "warmpod.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "WarmModel"
PLURAL = "warmmodels"

# Conditions of pods: written by sidecar and agent, read by operator and command line.
WARM_CONDITION = f"{GROUP}/Warm"
TIMELINE_CONDITION = f"{GROUP}/StartupTimeline"
RESIDENT_CONDITION = f"{GROUP}/Resident"
# What stands in a message before the remedy. A message of the agent that has one needs no other.
REMEDY = " — "

# Annotation of a WarmModel: each new text asks its warm pods to play warm-up again. Written by
# people and pipelines, never by the operator.
WARM_NOW_ANNOTATION = f"{GROUP}/warm-now"
# Whom a token must be for that asks the operator for the same by HTTP.
TOKEN_AUDIENCE = GROUP

# Environment variables: each holds the settings of one process as JSON, written by the operator.
AGENT_CONFIG_VARIABLE = "WARMPOD_AGENT_CONFIG"
SIDECAR_CONFIG_VARIABLE = "WARMPOD_SIDECAR_CONFIG"

# Files of the run directory, which launcher and sidecar share.
EVENTS_FILE = "events.jsonl"
WARM_FILE = "warm.json"
STOPPING_FILE = "stopping"
GATE_CLOSED_FILE = "gate-closed"
# The sidecar asks the launcher to end a boot: the file holds the boot's id and why, as JSON.
END_BOOT_FILE = "end-boot.json"
# Answers under the settings of spec.warmup.compare, from the reference boot.
REFERENCE_FILE = "reference.json"

# What opens the engine's development endpoints: the launcher writes it, the sidecar sends it.
DEV_KEY_FILE = "dev-key"
DEV_KEY_HEADER = "X-Warmpod-Key"
# Where the guard in the engine's process finds the run directory.
RUN_DIR_VARIABLE = "WARMPOD_RUN_DIR"

# Causes of a boot's end that the sidecar had asked for, in the launcher's events.
WARMUP_FAILED = "warmup-failed"
REFERENCE_DONE = "reference-done"

# The last file of a copy of the weights: the agent writes it, the launcher waits for it.
RECEIPT_NAME = ".warmpod-receipt.json"
# Who uses a copy holds a lock on this file of it, which agents make before the receipt.
USERS_LOCK = ".warmpod-users.lock"

# Where the sidecar finds the user's prompts: one folder a ConfigMap.
PROMPTS_MOUNT = "/etc/warmpod/prompts"

# Ports of the pod and paths in the engine container that the user's own may not collide with.
WARMUP_PORT = 9180
AGENT_PORT = 9181
LAUNCHER_MOUNT = "/opt/warmpod"
RUN_MOUNT = "/run/warmpod"

# Paths in the prefetch pod and in the container that fills a pod's memory.
NODE_ROOT_MOUNT = "/run/warmpod-weights"
STAGE_ROOT_MOUNT = "/run/warmpod-staged"
# What the node has there: a tmpfs that every Linux has, and a disk, which outlives the pods.
NODE_ROOT = "/dev/shm/warmpod"  # noqa: S108 - not a temporary file
STAGE_ROOT = "/var/lib/warmpod/weights"
# One folder a set of weights whose source can be replaced: what its path begins in.
LOOKUP_MOUNT = "/run/warmpod-lookups"
# One folder a set of weights whose source has a Secret, with a file for each key of it.
CREDENTIALS_MOUNT = "/run/warmpod-credentials"
# One folder a pull secret, by number.
PULL_SECRETS_MOUNT = "/run/warmpod-pull"
AGENT_STATE_MOUNT = "/run/warmpod-agent"

# What engines compile: the pod's own copy, and the store that it is filled from, which is one
# WarmModel's. In the engine container published entries are mounted read-only; the agent has all.
CACHE_MOUNT = "/var/cache/warmpod"
CACHE_STORE_MOUNT = "/run/warmpod-cache"
# All stores of the namespace on the node, by the uid of the WarmModel, for the agent alone.
CACHE_STORES_MOUNT = "/run/warmpod-caches"
# The stores of a node: <namespace>/<uid of the WarmModel> below it.
CACHE_ROOT = "/var/lib/warmpod/compile-cache"
FILL_MOUNT = "/weights"


def control_audience(namespace: str, model: str) -> str:
    """Of the tokens with which the operator calls the sidecars of a WarmModel: what one model's
    sidecar sees is worth nothing at another's."""
    return f"{GROUP}/{namespace}/{model}"


def service_account_user(namespace: str, name: str) -> str:
    """As the API server calls a service account, in a token's `sub` too."""
    return f"system:serviceaccount:{namespace}:{name}"
