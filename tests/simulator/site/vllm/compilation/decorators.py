"""A module that an engine can do without until it runs."""

from vllm import FAULT, faults

if FAULT == "cuda-in-module":
    faults.initialise_cuda()
if FAULT == "thread-in-module":
    faults.start_thread()
