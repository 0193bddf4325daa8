"""A package of vLLM's name, for the launcher's fork server, which imports vLLM before an engine
is asked for: it takes SIM_IMPORT_SECONDS, and brings what the simulated engine imports.

SIM_IMPORT_FAULT: what makes such a process useless (see the README).
"""

import os
import time

from vllm import faults

FAULT = os.environ.get("SIM_IMPORT_FAULT", "none")

time.sleep(float(os.environ.get("SIM_IMPORT_SECONDS", "0")))
if FAULT == "fails":
    raise ImportError("libcudart.so.13: cannot open shared object file")
if FAULT == "hangs":
    time.sleep(3600)
if FAULT == "dies":
    os.abort()
if FAULT == "cuda":
    faults.initialise_cuda()
if FAULT == "thread":
    faults.start_thread()
if FAULT == "harmless-threads":
    faults.start_thread("cuda00001c00008")
    faults.start_thread("jemalloc_bg_thd")
if FAULT == "process" and os.fork() == 0:
    time.sleep(3600)
