# One command for each task of developers and CI; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

DEVCLUSTER := python3 -m tools.devcluster
IN_VENV := .venv/bin/
# Exports the addresses and paths in the env file that `make cluster` writes.
WITH_CLUSTER := set -a; . ./.devcluster/env; set +a;
# Exports them if there is a cluster: some of its programs are used without it.
WITH_TOOLS := if test -f .devcluster/env; then set -a; . ./.devcluster/env; set +a; fi;
# The product, such as that of the demo, would execute the runs that the tests create.
WITHOUT_PRODUCT := $(WITH_CLUSTER) PATH="$${INFERRUN_BIN:-}:$$PATH" helm uninstall inferrun -n inferrun-system --ignore-not-found --wait
# A file is a unit of work: its tests share servers and a namespace. The order of the paths stays, so that the longest files are first.
IN_PARALLEL := --dist loadfile --no-loadscope-reorder
# A further condition on the tests that are executed; `make test` sets it.
AND ?=
STAGES := checks cluster images tests e2e

.PHONY: try help venv lock checks lint types generated docs unit test test-all tests cluster cluster-down status images load conformance workflow integration e2e \
	demo demo-down bench bench-runner bench-peers bench-scale interop attacks audit release verify-release foreign faults storm soak million recovery crowds fires

help: ## list the commands
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

try: ## run the iris example on this machine, without a cluster, beside a real model server
	@python3 -m tools.first_try

demo: venv ## create a cluster (or use INFERRUN_CONTEXT=kind-...) and play the demo
	@$(DEVCLUSTER) up --images product --images examples
	@$(IN_VENV)python -m examples.demo up

demo-down: venv ## remove what the demo installed
	@$(IN_VENV)python -m examples.demo down

test: ## create a cluster, run all checks and the tests that protect a change; stops at the first stage that fails
	@AND=' and not thorough' $(DEVCLUSTER) stages $(STAGES)

test-all: ## the same with all tests
	@$(DEVCLUSTER) stages $(STAGES)

cluster: ## create a Kubernetes node and a Temporal server on this machine (INFERRUN_CONTEXT, TEMPORAL_ADDRESS: use existing ones)
	@$(DEVCLUSTER) up

cluster-down: ## delete the cluster and its data
	@$(DEVCLUSTER) down

status: ## show the state of the cluster's components
	@$(DEVCLUSTER) status

images: ## build the product's images and load them into the cluster
	@$(DEVCLUSTER) images

load: ## load an image archive into the cluster: make load IMAGE=<archive>
	@test -n "$(IMAGE)" || { echo 'error: IMAGE is not set'; echo 'fix:   make load IMAGE=<archive>'; exit 1; } >&2
	@$(DEVCLUSTER) load "$(IMAGE)"

audit: venv ## compare the locked packages with known vulnerabilities; needs access to a vulnerability service
	@$(IN_VENV)pip-audit --strict --require-hashes --disable-pip -r requirements/control.txt -r requirements/runner.txt

release: venv ## build and publish a release: make release REGISTRY=<host>/<path> VERSION=<version> KEY=<file> (without KEY: only build)
	@$(IN_VENV)python -m tools.supply_chain release --registry "$(REGISTRY)" --version "$(VERSION)" --key "$(KEY)"

verify-release: venv ## verify a published release: make verify-release REGISTRY=<host>/<path> VERSION=<version> KEY=<public key>
	@$(IN_VENV)python -m tools.supply_chain verify --registry "$(REGISTRY)" --version "$(VERSION)" --key "$(KEY)"

venv: ## install the locked Python packages into .venv
	@$(DEVCLUSTER) venv

lock: ## resolve the dependencies of pyproject.toml into requirements/*.txt
	@python3 -m tools.locks

checks:
	@$(MAKE) --jobs 2 --output-sync lint types generated docs

lint: venv ## check style, formatting and import rules
	@$(IN_VENV)ruff check .
	@$(IN_VENV)ruff format --check .
	@$(IN_VENV)lint-imports --no-cache

types: venv ## check types, tests included
	@$(IN_VENV)mypy
	@$(IN_VENV)mypy -p deploy -p tools

generated: venv ## check that generated files are up to date
	@$(IN_VENV)python -m deploy.crds.generate --check
	@$(IN_VENV)python -m tools.reference --check
	@$(IN_VENV)python -m tools.messages --check

docs: venv ## build the documentation site into build-output/site; any warning or broken link fails
	@rm -rf build-output/site
	@$(IN_VENV)sphinx-build -q -E -W --keep-going -n -d build-output/doctrees -b html docs build-output/site
	@echo 'built build-output/site/index.html'

unit: venv ## run the unit tests, which open no sockets
	@$(IN_VENV)pytest -q -n 2 $(IN_PARALLEL) tests/unit

conformance: venv ## run the conformance tests of all stores
	@$(DEVCLUSTER) test-servers
	@$(IN_VENV)pytest -q -n 2 $(IN_PARALLEL) tests/conformance

workflow: venv ## run the workflow tests on a Temporal server
	@$(DEVCLUSTER) test-packages
	@$(WITH_CLUSTER) $(IN_VENV)pytest -q -n 2 $(IN_PARALLEL) tests/workflow

integration: venv ## run the tests against the API server, without the product that is installed there
	@$(DEVCLUSTER) test-servers
	@$(WITHOUT_PRODUCT)
	@$(WITH_CLUSTER) $(IN_VENV)pytest -q -n 2 $(IN_PARALLEL) tests/integration

tests: venv
	@$(DEVCLUSTER) test-packages
	@$(DEVCLUSTER) test-servers
	@$(WITHOUT_PRODUCT)
	@$(WITH_CLUSTER) $(IN_VENV)pytest -q -n 3 $(IN_PARALLEL) -m 'not alone$(AND)' \
	    tests/integration tests/workflow tests/conformance tests/unit

e2e: venv ## run the tests on the node, with the product installed by its chart
	@$(WITH_CLUSTER) $(IN_VENV)pytest -q -n 3 -m 'not alone$(AND)' tests/e2e
	@$(WITH_CLUSTER) $(IN_VENV)pytest -q -m 'alone$(AND)' tests/e2e

foreign: venv ## have software of others write its files again, and read them (FOREIGN="clickhouse --keep"; needs the registries)
	@$(DEVCLUSTER) test-packages
	@$(IN_VENV)python -m tests.foreign $(FOREIGN)

interop: venv cluster images foreign ## test against software of others, KServe's own controllers and Kueue, and a thousand runs that wait for one model
	@$(DEVCLUSTER) kserve
	@$(DEVCLUSTER) kueue
	@$(WITH_TOOLS) $(IN_VENV)python -m tests.integration.runner.value_page
	@$(WITH_CLUSTER) $(IN_VENV)pytest -q -s campaigns/interop

attacks: venv cluster images ## attack the installed product as a tenant, as a Temporal client and as an image
	@rm -rf build-output/attacks
	@$(WITH_CLUSTER) INFERRUN_ATTACK_RECORD=1 $(IN_VENV)pytest -q -n 2 campaigns/attacks || true
	@$(IN_VENV)python -m campaigns.attacks.report

bench: venv cluster ## run the benchmarks on a control plane of their own, beside Krateo's controller if INFERRUN_KRATEO names its program
	@$(WITH_CLUSTER) $(IN_VENV)python -m campaigns.benchmarks burst
	@$(WITH_CLUSTER) $(IN_VENV)python -m campaigns.benchmarks beside --page docs/reference/control-plane.md

bench-runner: venv ## measure the runner beside a load generator (about 8 min; needs a quiet machine; BENCH="--all" adds 18 min)
	@$(IN_VENV)python -m campaigns.benchmarks runner $(BENCH)

bench-peers: venv ## measure the runner beside other clients, and compare all results (about an hour; needs a quiet machine; PEERS="--scale 0.01 --passes 1")
	@$(IN_VENV)python -m campaigns.peers --page docs/reference/peers.md $(PEERS)

bench-scale: venv cluster ## measure with 10,000 waiting and 2,000 running runs (about an hour; SCALE="--waiting 2000 --running 500" for less)
	@$(WITH_CLUSTER) $(IN_VENV)python -m campaigns.benchmarks scale $(SCALE)

faults: venv cluster ## inject each fault into each call, and compare the ends (FAULTS="--seed 7 --sample 50")
	@$(WITH_CLUSTER) $(IN_VENV)python -m campaigns.faults --page docs/contributing/faults.md $(FAULTS)

storm: venv cluster ## kill everything at random while runs are executed, and draw up an account (STORM="--runs 500 --quiet 60")
	@$(WITH_CLUSTER) $(IN_VENV)python -m campaigns.faults.storm --record $(STORM)

soak: venv ## kill Pods of runs a thousand times, with every store, and check every record (SOAK="--kills 100 --stores s3")
	@$(WITH_TOOLS) $(IN_VENV)python -m campaigns.soak --record $(SOAK)

million: venv cluster images ## send a million rows from S3 to S3 through the cluster, and kill the Pod midway (MILLION="--rows 100000")
	@$(DEVCLUSTER) test-servers
	@$(WITH_CLUSTER) $(IN_VENV)python -m campaigns.soak.million --record $(MILLION)

recovery: venv cluster ## have Temporal forget a thousand running runs, and record how they recover (RECOVERY="--runs 100 --kinds lost")
	@$(WITH_CLUSTER) $(IN_VENV)python -m campaigns.faults.recovery --record $(RECOVERY)

fires: venv cluster ## kill programs while hundreds of schedules fire, and draw up an account of all times (about 15 min)
	@$(WITH_CLUSTER) $(IN_VENV)python -m campaigns.faults.fires --record $(FIRES)

crowds: venv cluster ## measure how much a crowd delays a run in another namespace
	@$(WITH_CLUSTER) $(IN_VENV)python -m campaigns.faults.crowds --record
