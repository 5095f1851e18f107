# One command for each thing that people and CI do; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

DEVCLUSTER := python3 -m tools.devcluster
IN_VENV := .venv/bin/
# What of the cluster a test needs is in this file, written by `make cluster`.
ATTACHED := set -a; . ./.devcluster/env; set +a;
# The order in which `make test` runs them: cheap and telling first.
STAGES := lint types generated unit conformance cluster images $(foreach kind,workflow integration e2e,$(if $(shell find tests/$(kind) -name 'test_*.py' -print -quit),$(kind)))

.PHONY: help venv lock lint types generated unit test cluster cluster-down status images load conformance workflow integration e2e \
	demo demo-down bench

help: ## list the commands
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

demo: venv cluster images ## set everything up and run the main job on real parts
	@$(IN_VENV)python -m examples.demo up

demo-down: venv ## remove what the demo made
	@$(IN_VENV)python -m examples.demo down

test: ## set up what is needed and run every check and test; stops at the first stage that fails
	@$(DEVCLUSTER) stages $(STAGES)

cluster: ## a Kubernetes node and a Temporal server on this machine (INFERRUN_CONTEXT, TEMPORAL_ADDRESS: use yours)
	@$(DEVCLUSTER) up

cluster-down: ## end the cluster and remove its data
	@$(DEVCLUSTER) down

status: ## say which parts of the cluster run
	@$(DEVCLUSTER) status

images: ## build the product's images and bring them onto the node
	@$(DEVCLUSTER) images

load: ## bring an image archive onto the node: make load IMAGE=<archive>
	@test -n "$(IMAGE)" || { echo 'error: no archive named'; echo 'cure:  make load IMAGE=<archive>'; exit 1; } >&2
	@$(DEVCLUSTER) load "$(IMAGE)"

venv: ## the locked Python packages in .venv
	@$(DEVCLUSTER) venv

lock: ## resolve the dependencies of pyproject.toml into requirements/*.txt
	@python3 -m tools.locks

lint: venv ## style, layout and who imports whom
	@$(IN_VENV)ruff check .
	@$(IN_VENV)ruff format --check .
	@$(IN_VENV)lint-imports --no-cache

types: venv ## strict type checking, tests included
	@$(IN_VENV)mypy
	@$(IN_VENV)mypy -p deploy -p benchmarks -p tools

generated: venv ## compare committed generated files with what generates them
	@$(IN_VENV)python -m deploy.crds.generate --check
	@$(IN_VENV)python -m tools.docs_tables --check

unit: venv ## tests that open no socket
	@$(IN_VENV)pytest -q tests/unit

conformance: venv ## every store against one suite
	@$(IN_VENV)pytest -q tests/conformance

workflow: venv ## tests of workflows on a Temporal server
	@$(DEVCLUSTER) test-packages
	@$(ATTACHED) $(IN_VENV)pytest -q tests/workflow

integration: venv ## tests against the API server
	@$(ATTACHED) $(IN_VENV)pytest -q tests/integration

e2e: venv ## tests on the node, through the chart
	@$(ATTACHED) $(IN_VENV)pytest -q -n 4 -m 'not alone' tests/e2e
	@$(ATTACHED) $(IN_VENV)pytest -q -m alone tests/e2e

bench: venv cluster ## measure against the control plane and Temporal
	@$(ATTACHED) $(IN_VENV)python -m benchmarks
