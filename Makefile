# Every task of the project. `make help` lists them.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PYTHONPATH := operator:.
# Where bytecode is not kept, each of the many processes that tests start compiles all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv check lint types layers format test quick demo chaos soak real-node real-card bench bench-endtoend bench-schedperf bench-scale bench-poison bench-crowd docs docs-serve crds metrics chart proto lock clean

help: ## List the tasks
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1m%-15s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.ready: requirements/dev.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the locked dependencies into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

venv: $(VENV)/.ready ## Make the virtual environment from the lock file

check: lint types layers ## Lint, types, import layers

lint: venv ## ruff: all rules, and formatting
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: venv ## mypy strict
	@$(BIN)/mypy

layers: venv ## import-linter: imports point down only
	@$(BIN)/lint-imports

format: venv ## Format and mend what ruff can mend
	@$(BIN)/ruff check --fix . || true
	@$(BIN)/ruff format .

WORKERS ?= 3
test: check ## Check, then all tests, on real control planes, one for each worker: `make test WORKERS=4`
	@$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadscope --no-loadscope-reorder

quick: venv ## Only the tests that need no control plane and no fifth of a second each; names those that took much longer
	@$(BIN)/python -m pytest -m "not cluster and not slow" --numprocesses $(WORKERS) --dist loadscope --no-loadscope-reorder --durations=10 --durations-min=0.6

demo: venv ## The whole product on this machine; `make demo ARGS=--keep` leaves it running
	@$(BIN)/python -m testbed demo $(ARGS)

KILLS ?= 1000
SEED ?= 7
chaos: venv ## Kill the agent again and again: `make chaos KILLS=1000 SEED=7 REPORT=kills.csv`
	@$(BIN)/python -m testbed chaos --kills $(KILLS) --seed $(SEED) $(if $(REPORT),--report $(REPORT)) $(ARGS)

HOURS ?= 2
soak: venv ## The whole behind a faulty API server, under random load and kills: `make soak HOURS=2 SEED=7`, or MINUTES=30
	@$(BIN)/python -m testbed soak $(if $(MINUTES),--minutes $(MINUTES),--hours $(HOURS)) --seed $(SEED) $(ARGS)

real-node: venv ## Pods with partitions on a real kubelet and containerd (root only); `ARGS=--machine-cards`: on this machine's GPUs
	@$(BIN)/python -m testbed real-node $(ARGS)

real-card: venv ## What the agent finds on this machine's real cards, as a report; `make real-card ARGS=--write` cuts one partition
	@$(BIN)/python -m testbed real-card $(ARGS)

bench: venv ## Ours and kube-scheduler's allocator on the same scenarios
	@$(BIN)/python -m bench $(ARGS)

bench-endtoend: venv ## Pods created, allocated, bound on a real control plane, beside kube-scheduler
	@$(BIN)/python -m bench.endtoend $(ARGS)

bench-schedperf: venv ## Kubernetes' own scheduler_perf DRA cases, without and with ours (Go)
	@$(BIN)/python -m bench.schedperf $(ARGS)

bench-scale: venv ## 5,000 nodes, 50,000 pods, 20,000 claims behind a real API server
	@$(BIN)/python -m bench.scale $(ARGS)

bench-poison: venv ## One tenant's steady pods while another one does all that does damage
	@$(BIN)/python -m bench.poison $(ARGS)

bench-crowd: venv ## One tenant's steady pods beside thousands of others' that wait in a full cluster
	@$(BIN)/python -m bench.crowd $(ARGS)

docs: venv ## Build the documentation site into site/; nothing is fetched
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docs-serve: venv ## Show the documentation site while you write
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

crds: venv ## Write crds/ from the pydantic models
	@$(BIN)/python -m apportion crds --out crds

metrics: venv ## Write docs/metrics.md anew from the metrics
	@$(BIN)/python -m tests.metrics.reference > docs/metrics.md.new && mv docs/metrics.md.new docs/metrics.md

chart: venv ## Write charts/ from manifests/
	@$(BIN)/python -m testbed chart

proto: venv ## Generate the gRPC messages from our own .proto files
	@$(BIN)/python -m testbed proto

lock: venv ## Renew requirements/*.txt (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -o requirements/runtime.txt pyproject.toml
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --group dev -o requirements/dev.txt pyproject.toml requirements/build.in

clean: ## Remove what can be made again
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache site
