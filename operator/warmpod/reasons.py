"""Every reason that stands in a condition or an event, with what it means and what to do about it.

One module, so that a reason is spelled in one place, the documentation can be checked against it,
and an alert on a reason cannot break unnoticed. The sidecar imports it too, so it stays free of
everything but the standard library.
"""

from __future__ import annotations

from typing import Final

ALL: Final[dict[str, Reason]] = {}


class Reason(str):
    """A CamelCase reason; it is a `str`, so it goes into JSON and comparisons as it is."""

    __slots__ = ("meaning", "remedy")

    meaning: str
    remedy: str

    def __new__(cls, name: str, meaning: str, remedy: str = "Nothing to do.") -> Reason:
        reason = super().__new__(cls, name)
        reason.meaning = meaning
        reason.remedy = remedy
        if name in ALL:
            raise ValueError(f"reason {name} is defined twice")
        ALL[name] = reason
        return reason


# --- Reported by the sidecar in the pod condition warmpod.io/Warm ---------------------------------

WARM = Reason("Warm", "The engine boot was exercised and its latency has settled.")
OPENED_UNPROVEN = Reason(
    "OpenedUnproven",
    "Warm-up failed and spec.warmup.onFailure is Open, so the pod takes traffic unproven.",
    "Look at the sidecar's log; set spec.warmup.onFailure to Block to keep such pods out.",
)
SIDECAR_STARTING = Reason("SidecarStarting", "The warm-up sidecar has started and looks around.")
ENGINE_STARTING = Reason("EngineStarting", "The engine runs but does not answer HTTP yet.")
WARMING_UP = Reason("WarmingUp", "The engine answers and is being exercised.")
NO_TOKEN_YET = Reason(
    "NoTokenYet",
    "The engine answers HTTP but has not produced one token.",
    "Look at the engine's log; the model may be stuck in its first forward pass.",
)
WARMUP_STALLED = Reason(
    "WarmupStalled",
    "Warm-up made no progress for spec.warmup.stallSeconds.",
    "Look at the engine's log; raise spec.warmup.stallSeconds if one step may take that long.",
)
WARMUP_FAILED = Reason(
    "WarmupFailed",
    "The engine answered the warm-up requests with errors.",
    "The message carries the status and the body; correct spec.engine.args or the model.",
)
ENGINE_DIED = Reason(
    "EngineDied",
    "The engine process ended; the next boot starts in place.",
    "The message carries the exit code and the last log line.",
)
ENGINE_RESTARTING = Reason(
    "EngineRestarting",
    "Warm-up failed and spec.warmup.onFailure is Restart, so the engine is started again in place.",
    "The message says what failed; after spec.warmup.maxRestarts the pod stays out.",
)
ENGINE_GAVE_UP = Reason(
    "EngineGaveUp",
    "Too many engine boots in a row failed before they were warm.",
    "The message carries the last log line; correct spec.engine.",
)
STOPPING = Reason("Stopping", "The pod is being stopped, so its gate is closed.")
FALLING_ASLEEP = Reason(
    "FallingAsleep", "The pod becomes a sleeping standby as soon as its engine is idle."
)
ASLEEP = Reason(
    "Asleep",
    "The engine sleeps: as a standby with spec.standby.state Sleeping, or because somebody else "
    "put it to sleep or paused it.",
    "A standby is woken by the operator. If it was somebody else: wake it (POST /wake_up or "
    "/resume); the gate opens again after its answers were checked.",
)
WAKING = Reason("Waking", "The engine is being woken up, or its answers are being checked.")
WAKE_FAILED = Reason(
    "WakeFailed",
    "The engine did not wake up, or gives no answers since; the message says which.",
    "Delete the pod: kubectl delete pod NAME. With spec.warmup.onFailure Restart the engine is "
    "started again in place.",
)
ANSWER_CHANGED = Reason(
    "AnswerChanged",
    "After a wake-up the engine answers differently from before.",
    "Restart the pod. Sleep level 2 loses the weights unless they are reloaded.",
)
GOLDEN_MISMATCH = Reason(
    "GoldenMismatch",
    "The engine's answer differs from spec.warmup.golden.",
    "The message shows both. If the change is meant, record again: kubectl warm golden record.",
)
COMPARING = Reason(
    "Comparing",
    "The engine runs with the settings of spec.warmup.compare, to be compared with its own.",
)
CANARY_FAILED = Reason(
    "CanaryFailed",
    "A warm engine stopped answering the sidecar's canary.",
    "Look at the engine's log; the gate opens again when the canary succeeds.",
)
OUT_OF_MEMORY = Reason(
    "OutOfMemory",
    "The engine ran out of accelerator or host memory.",
    "Lower --gpu-memory-utilization or --max-model-len in spec.engine.args, or give more memory in "
    "spec.engine.resources.",
)
OUT_OF_MEMORY_IN_WEIGHTS = Reason(
    "OutOfMemoryInWeights",
    "The accelerator's memory does not hold the weights.",
    "Use more GPUs (--tensor-parallel-size), a quantised model, or GPUs with more memory.",
)
OUT_OF_MEMORY_IN_GRAPH_CAPTURE = Reason(
    "OutOfMemoryInGraphCapture",
    "The accelerator ran out of memory while CUDA graphs were captured.",
    "Lower --gpu-memory-utilization, --max-num-seqs or the number of --cudagraph-capture-sizes in "
    "spec.engine.args.",
)
UNSUPPORTED_ARGUMENT = Reason(
    "UnsupportedArgument",
    "The engine refused a command line argument.",
    "Correct spec.engine.args for the version in spec.engine.image.",
)
MODEL_NOT_FOUND = Reason(
    "ModelNotFound",
    "The engine found no model at the path it was given.",
    "Check that the source in spec.model holds the model at its root.",
)
PORT_IN_USE = Reason(
    "PortInUse",
    "The engine's port is taken inside the pod.",
    "Choose another --port in spec.engine.args, or take hostNetwork and extra containers out.",
)
KV_CACHE_TOO_SMALL = Reason(
    "KVCacheTooSmall",
    "The memory left beside the weights does not hold one request of full length.",
    "Lower --max-model-len in spec.engine.args, or raise --gpu-memory-utilization.",
)
GPU_BUSY = Reason(
    "GpuBusy",
    "Another process holds memory of the GPU that the engine wants for itself.",
    "Find what else runs on that GPU, or lower --gpu-memory-utilization in spec.engine.args.",
)
MISSING_TOKEN = Reason(
    "MissingToken",
    "The engine tried to download a file that needs a token.",
    "Add the file to the source in spec.model, or set HF_TOKEN in spec.engine.env.",
)
UNSUPPORTED_MODEL = Reason(
    "UnsupportedModel",
    "The engine does not know the model's architecture.",
    "Choose a version in spec.engine.image that supports the model.",
)
DRIVER_MISMATCH = Reason(
    "DriverMismatch",
    "The node's GPU driver is too old for the CUDA version in the engine image.",
    "Update the node's driver, or choose an older CUDA version in spec.engine.image.",
)
CONTEXT_TOO_LONG = Reason(
    "ContextTooLong",
    "The context length that was asked for is longer than the model's own.",
    "Lower --max-model-len in spec.engine.args to what the message names, or take it out.",
)
NOT_ENOUGH_GPUS = Reason(
    "NotEnoughGpus",
    "The engine is to run on more GPUs than its container has.",
    "Give spec.engine.resources.limits as many GPUs as --tensor-parallel-size times "
    "--pipeline-parallel-size in spec.engine.args need, or lower these.",
)
PARALLEL_SIZE_MISMATCH = Reason(
    "ParallelSizeMismatch",
    "The model's attention heads cannot be divided among that many GPUs.",
    "Choose a --tensor-parallel-size in spec.engine.args that divides the number in the message.",
)
UNSUPPORTED_QUANTIZATION = Reason(
    "UnsupportedQuantization",
    "The engine or the GPU cannot run weights that are quantised this way.",
    "Choose other nodes in spec.pod.nodeSelector, another spec.engine.image, or other weights; or "
    "correct --quantization in spec.engine.args.",
)
REMOTE_CODE_NEEDED = Reason(
    "RemoteCodeNeeded",
    "The model comes with code of its own, which the engine does not run unasked.",
    "If you trust that code, add --trust-remote-code to spec.engine.args; else choose an engine "
    "version in spec.engine.image that knows the model.",
)
GATED_MODEL = Reason(
    "GatedModel",
    "The engine tried to download a file that the account of its token may not have.",
    "Add the file to the source in spec.model, or have its owners grant access to the account.",
)
WEIGHTS_DAMAGED = Reason(
    "WeightsDamaged",
    "The engine cannot read a weights file: it is cut short, or is no safetensors file.",
    "Put the file right in the source in spec.model.",
)
SHARED_MEMORY_TOO_SMALL = Reason(
    "SharedMemoryTooSmall",
    "The engine's processes need more shared memory than /dev/shm has.",
    "Take your own mount of /dev/shm out of spec.engine.volumeMounts, or make it larger; it counts "
    "as memory of the pod.",
)
NCCL_FAILED = Reason(
    "NcclFailed",
    "The GPUs of the engine could not talk to each other (NCCL).",
    "Set NCCL_DEBUG=INFO in spec.engine.env and look at the engine's log for the first error.",
)
RUN_DIRECTORY_FULL = Reason(
    "RunDirectoryFull",
    "The directory that launcher and sidecar share, /run/warmpod, is full.",
    "Remove what the engine wrote there, or delete the pod; correct what writes there.",
)
NO_GPU = Reason(
    "NoGpu",
    "The engine found no accelerator.",
    "Set spec.engine.resources.limits, for example nvidia.com/gpu, or use a CPU engine image.",
)
UNSUPPORTED_GPU = Reason(
    "UnsupportedGpu",
    "The engine image has no kernels for the node's GPU generation.",
    "Choose other nodes in spec.pod.nodeSelector, or another spec.engine.image.",
)
ENGINE_IMAGE_MISMATCH = Reason(
    "EngineImageMismatch",
    "Parts of the engine image do not fit: its vLLM was built for another torch or CUDA.",
    "Choose another spec.engine.image, or build it with the torch that its vLLM asks for.",
)
DISK_FULL = Reason(
    "DiskFull",
    "A file could not be written because a disk or a volume is full.",
    "Remove what fills the disk or volume that the message names, or give it more room (/dev/shm "
    "counts as memory of the pod).",
)
WORKER_DIED = Reason(
    "WorkerDied",
    "One of the engine's worker processes was killed.",
    "Look at the engine's log; raise the memory limit in spec.engine.resources.",
)
ENGINE_START_FAILED = Reason(
    "EngineStartFailed",
    "The engine process failed while it started, with no cause that is known here.",
    "Look at the engine's log above the line in the message.",
)
ENGINE_NOT_FOUND = Reason(
    "EngineNotFound",
    "The engine's command is not in the engine image.",
    "Choose an image with vLLM in spec.engine.image, or set spec.engine.command.",
)
ENGINE_NOT_STARTABLE = Reason(
    "EngineNotStartable",
    "The engine's command is in the engine image but cannot be run.",
    "Check the file's mode and its interpreter in spec.engine.image.",
)

# --- Reported by the sidecar in the pod condition warmpod.io/StartupTimeline ----------------------

RECORDED = Reason("Recorded", "The message is the start-up time line of the current boot, as JSON.")

# --- Reported by the agent in the pod condition warmpod.io/Resident -------------------------------

RESIDENT = Reason("Resident", "The weights are verified and measured to be in the node's memory.")
VERIFIED = Reason("Verified", "The weights are verified; each pod holds its own copy.")
STAGING = Reason("Staging", "The agent downloads the weights from their source.")
VERIFYING = Reason("Verifying", "The agent reads the weights and compares their digests.")
LOADING = Reason("Loading", "The verified weights are being brought into memory.")
# The agent says itself what helps for the source at hand; this is for what it has no word on.
_RIGHT_FILES: Final = (
    "Put the right files into the source that spec.model names; an image has to be packed again "
    "(warmpod pack)."
)
WEIGHTS_MISSING = Reason(
    "WeightsMissing",
    "A file that the manifest of the weights promises is not there.",
    _RIGHT_FILES,
)
SIZE_MISMATCH = Reason(
    "SizeMismatch",
    "A weights file has another size than its manifest says.",
    _RIGHT_FILES,
)
DIGEST_MISMATCH = Reason(
    "DigestMismatch",
    "A weights file has other content than its manifest says.",
    _RIGHT_FILES,
)
SIGNATURE_MISSING = Reason(
    "SignatureMissing",
    "spec.model.verify is set, and the weights image is not signed.",
    "Sign it: cosign sign --key cosign.key IMAGE@DIGEST.",
)
SIGNATURE_INVALID = Reason(
    "SignatureInvalid",
    "The signature of the weights image, or what it vouches for, does not fit spec.model.verify "
    "and the files on the node.",
    "The message says which. Make the image with warmpod pack, sign its digest with the key that "
    "belongs to spec.model.verify.publicKey, and name the image by that digest.",
)
SIGNATURE_UNCHECKED = Reason(
    "SignatureUnchecked",
    "The registry could not be asked for the signature of the weights image; it is asked again.",
    "Make the registry reachable from pods on the node, with a secret in "
    "spec.pod.imagePullSecrets if it wants credentials.",
)
WEIGHTS_NOT_READABLE = Reason(
    "WeightsNotReadable",
    "The agent may not read a weights file.",
    "Give the files of the source in spec.model mode 0644 and directories 0755: chmod -R a+rX.",
)
NOT_RESIDENT = Reason(
    "NotResident",
    "Verified weights were dropped from memory, or changed since they were verified; the agent "
    "reads them again.",
    "If it stays, the node is short of memory: raise spec.weights.size or free the node.",
)
MEMORY_TOO_SMALL = Reason(
    "MemoryTooSmall",
    "The weights do not fit into the memory they were given.",
    "Set spec.weights.size to the size of all weights, or choose nodes with more memory.",
)
RESIDENCY_NOT_MEASURABLE = Reason(
    "ResidencyNotMeasurable",
    "The weights are verified, but this node gives no way to measure that they are in memory.",
    "Allow the agent CAP_IPC_LOCK (namespace level privileged), or use medium PodMemory.",
)
SOURCE_UNAUTHORIZED = Reason(
    "SourceUnauthorized",
    "The source of the weights does not know the caller (401): credentials are missing or wrong.",
    "Put the keys that the message names into the Secret of the source's secretName; the agent "
    "reads it again every half minute.",
)
SOURCE_FORBIDDEN = Reason(
    "SourceForbidden",
    "The source of the weights knows the caller and does not let it read them (403).",
    "Accept the model's terms, or give the account the right that the message names.",
)
SOURCE_NOT_FOUND = Reason(
    "SourceNotFound",
    "The source of the weights has no such repository, revision, bucket or file (404).",
    "Correct the field of spec.model that the message names.",
)
SOURCE_UNREACHABLE = Reason(
    "SourceUnreachable",
    "The source of the weights cannot be reached, or fails; the agent keeps trying.",
    "Check network, proxy and the source's own state from the node.",
)
PATH_MISMATCH = Reason(
    "PathMismatch",
    "There is no model where the spec says, or what is there cannot be laid out as files.",
    "Correct the field of spec.model that the message names.",
)
SOURCE_REPLACED = Reason(
    "SourceReplaced",
    "Another directory is at the path of the source than the one that the agent verified.",
    "Nothing to do: the agent starts again by itself, and verifies what is there now.",
)

# --- Found by the operator: input it cannot act on ------------------------------------------------

INVALID_SPEC = Reason(
    "InvalidSpec",
    "The spec cannot be read.",
    "Correct the field that the message names.",
)
WARMUP_TOO_LARGE = Reason(
    "WarmupTooLarge",
    "spec.warmup does not fit into the environment of a container.",
    "Move prompts to a ConfigMap and name it in spec.warmup.promptsFrom.",
)
NAME_CONFLICT = Reason(
    "NameConflict",
    "An object with the name of one of our children exists and belongs to somebody else.",
    "Delete or rename that object, or give the WarmModel another name. It is never overwritten.",
)
CHILD_REJECTED = Reason(
    "ChildRejected",
    "The API server refused an object that the WarmModel needs.",
    "The message carries the API server's answer; correct the field that it names.",
)
CHILD_EDITED = Reason(
    "ChildEdited",
    "Somebody else has set fields of an object that belongs to the WarmModel, and they stay.",
    "Set what is needed there in the WarmModel (spec.pod, spec.engine), and stop who sets it in "
    "the object; kubectl edit takes it out.",
)
POD_SECURITY_VIOLATION = Reason(
    "PodSecurityViolation",
    "The namespace's Pod Security level forbids the pods.",
    "Use weights.medium Image or PodMemory and compileCache.store Pod or Image, drop what the "
    "message names from spec.pod and "
    "spec.engine, or relax the namespace's label pod-security.kubernetes.io/enforce.",
)
POD_CREATION_FAILED = Reason(
    "PodCreationFailed",
    "The API server refuses to create the pods (quota, admission).",
    "The message carries the API server's answer.",
)
UNKNOWN_ARGUMENT = Reason(
    "UnknownArgument",
    "An engine argument exists in no version of vLLM.",
    "Take it out of spec.engine.args; the message says what does its job.",
)
LOADER_IGNORED = Reason(
    "LoaderIgnored",
    "spec.weights.loader has no effect, because spec.engine says itself how weights are loaded.",
    "Take out spec.weights.loader, or the argument that the message names.",
)
PROFILE_IGNORED = Reason(
    "ProfileIgnored",
    "spec.profile adds no argument of the engine, because it could not be told from what the "
    "engine's own command or config file says.",
    "State what you want of it there, or take out spec.profile.",
)
AUTOSCALER_TOO_FAST = Reason(
    "AutoscalerTooFast",
    "A HorizontalPodAutoscaler may act again before the pods of its last step are warm.",
    "Set what the message names in its behavior.",
)
AUTOSCALER_SCALES_DEPLOYMENT = Reason(
    "AutoscalerScalesDeployment",
    "It scales the WarmModel's Deployment, whose replicas the operator writes, too.",
    "Let its scaleTargetRef name the WarmModel (apiVersion warmpod.io/v1alpha1, kind WarmModel).",
)

# --- Found by the operator: images and containers -------------------------------------------------

IMAGE_NOT_FOUND = Reason(
    "ImageNotFound",
    "The registry does not have the image.",
    "Correct the reference in spec.model, spec.additionalModels, spec.engine.image or "
    "spec.compileCache.image (kubectl edit wm), or push the image.",
)
IMAGE_PULL_AUTH = Reason(
    "ImagePullAuth",
    "The registry wants credentials, or the repository does not exist.",
    "Name a pull secret (kubectl create secret docker-registry) in spec.pod.imagePullSecrets, or "
    "correct the reference.",
)
IMAGE_PULL_FAILED = Reason(
    "ImagePullFailed",
    "A node cannot pull the image.",
    "The message carries the container runtime's answer; it is tried again. On the node, "
    "crictl pull IMAGE shows the same.",
)
INVALID_IMAGE_NAME = Reason(
    "InvalidImageName",
    "The image reference is not a valid one.",
    "Correct the image in spec.model, spec.additionalModels or spec.engine.",
)
ARCH_MISMATCH = Reason(
    "ArchMismatch",
    "The image is not built for the node's processor architecture.",
    "Push an image for that architecture (docker buildx imagetools inspect IMAGE lists what it "
    "has), or choose other nodes in spec.pod.nodeSelector.",
)
CONTAINER_CONFIG_ERROR = Reason(
    "ContainerConfigError",
    "The kubelet cannot make up the container (a Secret or ConfigMap is missing, or the image's "
    "user is not allowed).",
    "Create what the message names, or correct spec.engine.env and spec.engine.securityContext.",
)
VOLUME_MOUNT_FAILED = Reason(
    "VolumeMountFailed",
    "A node cannot mount a volume of the pod.",
    "Create the Secret, ConfigMap or claim that the message names, or correct spec.pod.volumes or "
    "the source in spec.model; the pod goes on by itself.",
)
CONTAINER_START_FAILED = Reason(
    "ContainerStartFailed",
    "The container runtime cannot start the container.",
    "The message carries the runtime's answer; correct spec.engine.command or the image.",
)
ENGINE_CRASH_LOOPING = Reason(
    "EngineCrashLooping",
    "The engine keeps exiting before it is warm.",
    "The message carries the exit code and the last log line; correct spec.engine.",
)
CONTAINER_CRASH_LOOPING = Reason(
    "ContainerCrashLooping",
    "A container of warmpod itself keeps exiting.",
    "The message names pod and container; look at its log.",
)
WEIGHTS_INIT_FAILED = Reason(
    "WeightsInitFailed",
    "The init container could not fill the pod's memory volume with verified weights.",
    "The message carries its last words; check spec.weights.size and the source in spec.model.",
)
POD_FAILED = Reason(
    "PodFailed",
    "The kubelet ended or refused the pod.",
    "The message carries the kubelet's reason; a new pod replaces it.",
)
UNSCHEDULABLE = Reason(
    "Unschedulable",
    "No node can take the pod.",
    "The message is the scheduler's; change spec.pod or spec.engine.resources, add nodes, or "
    "create the claim that it does not find.",
)
NO_ROOM_FOR_BOTH = Reason(
    "NoRoomForBoth",
    "A node's memory does not hold the weights of two revisions, and engines there use the old.",
    "Let them go first (spec.replicas and spec.standby.replicas 0, and back), use nodes with more "
    "memory, or revert the spec.",
)
NODE_NOT_RESPONDING = Reason(
    "NodeNotResponding",
    "A node's kubelet does not take up the pod that was scheduled to it.",
    "Look at the node: kubectl describe node. If it is gone for good: kubectl delete node.",
)
NO_ELIGIBLE_NODES = Reason(
    "NoEligibleNodes",
    "No node could take an engine, by spec.pod.nodeSelector, affinity, tolerations, and the "
    "devices in spec.engine.resources.",
    "Correct them, or add nodes.",
)

IMAGE_REMOVED = Reason(
    "ImageRemoved",
    "An image that a node held was taken from it.",
    "The prefetch pod there is replaced and pulls it again. Find out who removes images from "
    "nodes.",
)

# --- Found by the operator: progress --------------------------------------------------------------

RESOLVING_IMAGES = Reason(
    "ResolvingImages", "The registry is being asked what the image tags stand for."
)
CREATING = Reason("Creating", "The objects of the WarmModel are being created.")
PREFETCHING = Reason("Prefetching", "Images are being pulled on the eligible nodes.")
WAITING_FOR_TURN = Reason(
    "WaitingForTurn", "As many nodes as may pull from the registry at a time do so."
)
PREFETCHED = Reason("Prefetched", "Every eligible node holds every image.")
WAITING_FOR_WEIGHTS = Reason(
    "WaitingForWeights",
    "Engines wait for their weights: the first ones for one node that has verified them, those of "
    "a new revision with other weights for all nodes.",
)
PREVIOUS_REVISION_SERVES = Reason(
    "PreviousRevisionServes",
    "Pods of the previous revision serve as asked, until the new one may start or in its place.",
    "Nothing to do. WeightsResident says how far its weights are; Stalled, if they cannot come or "
    "the new revision was taken back.",
)
ROLLOUT_ONE_BY_ONE = Reason(
    "RolloutOneByOne",
    "No node has room for one pod more than is asked for, so old pods go before new ones come.",
    "Nothing to do. With room for one more pod, or a standby pod, no user notices a rollout.",
)
ROLLOUT_WAITS_FOR_ROOM = Reason(
    "RolloutWaitsForRoom",
    "New pods find no place, and what the old ones take would not be enough for them.",
    "Add nodes, lower spec.engine.resources, or revert the spec.",
)
ROLLOUT_REJECTED = Reason(
    "RolloutRejected",
    "The first pod of the revision was slower than the one before, or did not become warm, so the "
    "revision before is there in its place.",
    "Correct or revert the spec. To have it all the same: spec.rollout.onRegression: Proceed, or a "
    "higher spec.rollout.tolerancePercent.",
)
WAITING_FOR_PODS = Reason("WaitingForPods", "The engine pods are being created and scheduled.")
WAITING_FOR_DELETION = Reason(
    "WaitingForDeletion",
    "Objects of an earlier WarmModel of the same name are still being deleted.",
)
WAITING_FOR_WARM_PODS = Reason("WaitingForWarmPods", "Engine pods are on their way to being warm.")
WAITING_FOR_ENDPOINTS = Reason(
    "WaitingForEndpoints",
    "Every node is given three seconds to learn of the new pods (minReadySeconds).",
)
ALL_WARM = Reason("AllWarm", "As many pods are warm as spec.replicas asks for.")
SCALED_TO_ZERO = Reason("ScaledToZero", "spec.replicas is 0.")
NO_STANDBY_REQUESTED = Reason("NoStandbyRequested", "spec.standby.replicas is 0.")
STANDBY_FILLED = Reason("StandbyFilled", "As many standby pods are ready as asked for.")
STANDBY_REFILLING = Reason("StandbyRefilling", "Standby pods are on their way to being warm.")
STANDBY_UNFILLED = Reason(
    "StandbyUnfilled",
    "Standby pods have been missing for longer than spec.standby.maxUnfilledSeconds.",
    "The message has what is known of the missing ones; else look at the pods with the label "
    "warmpod.io/role=standby. A pod that does not wake up, or answers differently after it, is to "
    "be deleted: another one replaces it.",
)
NOT_AHEAD = Reason(
    "NothingAhead", "There is no schedule and no forecast: the spec's own numbers are kept."
)
AS_SPECIFIED = Reason(
    "AsSpecified",
    "No window of spec.schedule asks for more than spec.replicas and spec.standby.replicas do.",
)
SCHEDULE_ACTIVE = Reason(
    "ScheduleActive", "A window of spec.schedule asks for more pods than the spec does otherwise."
)
FORECAST_ACTIVE = Reason(
    "ForecastActive", "More load is expected than the pods that spec and schedule ask for can take."
)
FORECAST_LOW = Reason(
    "ForecastLow", "The load that is expected needs no more pods than there are anyway."
)
FORECAST_OBSERVED = Reason(
    "ForecastObserved",
    "spec.forecast.mode is Observe: what would be done is said, and not done.",
)
COLLECTING_LOAD = Reason(
    "CollectingLoad",
    "Load is being recorded; a forecast needs two days of it, or two weeks with season Week.",
)
FORECAST_WORSE = Reason(
    "ForecastWorse",
    "The forecast has been further from what was needed than the schedule, so it is not followed.",
    "Nothing to do; it is followed again once it is better. Compare the errors in status.forecast.",
)
FORECAST_FAILED = Reason(
    "ForecastFailed",
    "No forecast could be computed, so that spec and schedule decide alone.",
    "The message says why; the operator's log has more.",
)
INVALID_SCHEDULE = Reason(
    "InvalidSchedule",
    "An entry of spec.schedule means nothing and is left out; all else goes on.",
    "Correct the field that the message names.",
)
UP_TO_DATE = Reason("UpToDate", "Nothing is left to do for this generation.")
PROGRESSING = Reason("Progressing", "The operator and the cluster are working on it.")
NOTHING_WRONG = Reason("NothingWrong", "Nothing needs a person.")

# --- Reasons of events only -----------------------------------------------------------------------

REVISION_CREATED = Reason(
    "RevisionCreated", "The spec became a new revision; its pod templates are fixed from now on."
)
RECONCILE_FAILED = Reason(
    "ReconcileFailed",
    "The operator met an error of its own with this WarmModel, and tries again.",
    "Report it with the operator's log, which has the rest (deployment/warmpod-operator).",
)
DIGEST_UNRESOLVED = Reason(
    "DigestUnresolved",
    "The registry did not say what a tag stands for, so the tag is used as written.",
    "Write the image by digest in the spec, so that every pod runs the same content.",
)
ROLLOUT_ACCEPTED = Reason(
    "RolloutAccepted",
    "The first pod of a new revision is warm and no slower than allowed; the others follow.",
)
EDIT_UNDONE = Reason(
    "EditUndone",
    "Somebody else had set fields of an object that belongs to the WarmModel; they were taken out.",
    "Set what is needed there in the WarmModel (spec.pod, spec.engine).",
)
WEIGHTS_RELEASED = Reason(
    "WeightsReleased",
    "No engine uses the weights of an earlier revision any more, so nodes need not hold them.",
)
WEIGHTS_SWAPPED = Reason(
    "WeightsSwapped",
    "Nodes have no memory for old and new weights at once, so the old ones go first.",
    "Nothing to do. To have the old ones back, revert the spec.",
)
RESIDENCY_LOST = Reason(
    "ResidencyLost",
    "Nodes that held the weights do not any more; the message has nodes, reason and cause.",
    "See the row of that reason. The agent brings them back where that is possible.",
)
RESIDENCY_RESTORED = Reason("ResidencyRestored", "Nodes that had lost the weights hold them again.")
POD_WARM = Reason(
    "PodWarm", "A pod became warm; the message tells how long it took and where the time went."
)
COMPILE_CACHE_MISS = Reason(
    "CompileCacheMiss",
    "A pod became warm and had compiled for itself, although spec.compileCache has a store; the "
    "message says what differs from what is stored.",
    "Nothing after a change of the image, of arguments, of the driver or of the GPU: the next pod "
    "finds what this one compiled. If it comes at each start, make the pods' arguments and "
    "variables alike.",
)
COMPILE_CACHE_SET_ASIDE = Reason(
    "CompileCacheSetAside",
    "Compiled code from the store was damaged, was refused by the engine, or its boot died before "
    "it was warm; no pod starts with it again, and this one has compiled anew.",
    "Nothing the first time. If it comes again, look for a disk with errors on the node, and at "
    "what the engine said before it died.",
)
PROMOTED = Reason(
    "Promoted", "Standby pods serve now: more were asked for, or serving ones were not warm."
)
DEMOTED = Reason("Demoted", "Serving pods are held back now: fewer were asked for.")
GATE_CLOSED = Reason(
    "GateClosed",
    "A pod that took traffic takes none any more; the message has its reason and what was found.",
    "See the row of that reason.",
)
WARMED_AGAIN = Reason(
    "WarmedAgain", "All warm pods were told to play their warm-up again, as was asked for."
)
WARM_AGAIN_FAILED = Reason(
    "WarmAgainFailed",
    "Warm-up was asked for again, and some pods could not be told.",
    "The message names pods and causes; ask again with another text.",
)
