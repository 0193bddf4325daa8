"""The local cluster, the operator and vLLM on a machine with a GPU: packed here, measured there."""
