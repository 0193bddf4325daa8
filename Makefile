# `make help` tells what there is. The work is done by the programs in hack/.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/warmpod
VENV := $(CACHE)/venv
PYTHON := $(VENV)/bin/python
CLUSTER := hack/cluster/cluster
LOCAL_KUBECONFIG := /var/lib/warmpod-cluster/config/admin.kubeconfig

# With a cluster of your own (KUBECONFIG), no local one is started.
export KUBECONFIG := $(or $(KUBECONFIG),$(LOCAL_KUBECONFIG))
LOCAL := $(filter $(LOCAL_KUBECONFIG),$(KUBECONFIG))
export PYTHONPATH := operator:hack:tests
# The tests start a hundred processes; each would compile the package again without a cache.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CACHE)/bytecode
ifneq ($(REGISTRY),)
export REGISTRY
endif

.PHONY: help
help: ## what make can do
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16
	@echo
	@echo 'Variables:'
	@echo '  KUBECONFIG      your own cluster; without it a local one is started (needs root)'
	@echo '  REGISTRY        with your own cluster: where images are pushed and pulled, such as'
	@echo '                  registry.example.com/warmpod; it must be reachable from here and there'
	@echo '  WARMPOD_WHEELS  a directory with the CPU build of torch, which is not on PyPI'
	@echo '  PIP_INDEX_URL, PIP_EXTRA_INDEX_URL  also used while images are built'
	@echo
	@echo 'Everything that is downloaded or built lies in $(CACHE).'

.PHONY: demo
demo: install ## a model served by real vLLM: apply it, wait until it is warm, ask it something
	@$(PYTHON) hack/demo.py

.PHONY: test
test: tools ## all tests: lint, types, unit, processes, API server, cluster (always the local one)
	@env -u REGISTRY KUBECONFIG=$(LOCAL_KUBECONFIG) $(PYTHON) hack/run_tests.py

.PHONY: unit
unit: $(VENV)/ready ## the tests that need no cluster
	@$(PYTHON) hack/run_tests.py unit

.PHONY: processes
processes: $(VENV)/ready ## the tests of whole processes that need no cluster
	@$(PYTHON) -m pytest tests/processes --numprocesses=4 --dist=worksteal

.PHONY: apiserver
apiserver: install ## the tests that need an API server but no node
	@$(PYTHON) -m pytest tests/apiserver

.PHONY: cluster-test
cluster-test: install ## the tests on the local cluster's real node
	@$(PYTHON) -m pytest tests/cluster

.PHONY: autoscaler-test
autoscaler-test: install ## the tests of autoscaling by requests; builds Prometheus and KEDA, which takes long
	@hack/cluster/build prometheus keda
	@$(CLUSTER) add prometheus
	@status=0; $(PYTHON) -m pytest tests/cluster -m 'prometheus and not keda' || status=$$?; \
	{ $(CLUSTER) add keda && $(PYTHON) -m pytest tests/cluster -m keda; } || status=$$?; \
	$(CLUSTER) remove keda prometheus; exit $$status

.PHONY: lint
lint: $(VENV)/ready ## style, types, and whether the CRD in the tree is what the code says
	@$(PYTHON) hack/lint.py

.PHONY: bench
bench: install ## the figures of docs/benchmarks.md
	@$(PYTHON) -m bench

.PHONY: cluster
cluster: tools ## the local cluster, if KUBECONFIG names no other
ifneq ($(LOCAL),)
	@hack/cluster/build
	@$(CLUSTER) up
else
	@echo "Using the cluster of $$KUBECONFIG."
	@hack/cluster/build registry # crane, which pushes images
endif

.PHONY: images
images: cluster ## build what has changed and push everything
	@$(PYTHON) hack/images.py

.PHONY: install
install: images ## the operator, running in the current cluster
	@$(PYTHON) hack/install.py

.PHONY: clean-cluster
clean-cluster: ## end the local cluster and all that it left
	@$(CLUSTER) down

.PHONY: kubeconfig
kubeconfig: ## print the path of the local cluster's kubeconfig
	@echo $(LOCAL_KUBECONFIG)

# Programs and packages that the other targets need.
.PHONY: tools
tools: $(VENV)/ready
	@hack/install-packages

$(VENV)/ready: pyproject.toml hack/make-venv
	@hack/make-venv $(VENV)
