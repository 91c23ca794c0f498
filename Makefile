# `make` alone lists what there is. Everything runs in .venv, which makes itself.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# Where Airflow's, Spark's and our own commands are found, by us and by the processes that they start.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Spark else takes the address that the host name stands for, which may lead nowhere.
export SPARK_LOCAL_IP := 127.0.0.1
export PYTHONUNBUFFERED := 1

PYTEST := python -m pytest $(ARGS)
CHECKED := airflow_provider_sfevents tests dags scripts benchmarks

.PHONY: help demo ui test test-full check check-format check-lint check-types check-imports format bench lock proto clean \
	runtime dev

help: ## list the targets
	@echo "make PYTHON=... takes that interpreter (3.11 or newer); make test ARGS='-k name' picks tests"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: runtime ## events from an emulated Salesforce org into a Spark table, twice
	@python -m scripts.demo

ui: runtime ## Airflow in the browser with the emulator, the connections and the DAGs (PORT=8080)
	@python -m scripts.ui

test: dev ## all tests but the long ones
	$(PYTEST) -m "not full"

test-full: dev ## all tests; a failure does not keep the long ones from telling what they know
	@status=0; $(PYTEST) -m "not full" || status=1; $(PYTEST) -m full || status=1; exit $$status

check: check-format check-lint check-types check-imports ## format, lint, types, import rules

check-format: dev
	ruff format --check $(CHECKED)

check-lint: dev
	ruff check $(CHECKED)

check-types: dev
	mypy $(CHECKED)

check-imports: dev
	lint-imports

format: dev ## put the code into the form that `make check` wants
	ruff format $(CHECKED)
	ruff check --fix $(CHECKED)

bench: dev ## benchmarks, each figure with its limit or its peer
	python -m benchmarks

lock: ## resolve the newest allowed packages into the lock files
	@scripts/lock.sh

proto: ## generate the Python code from pubsub_api.proto
	@scripts/proto.sh

clean: ## remove environment, caches and what the demo made
	rm -rf .venv .venv.log .demo .ui build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

runtime:
	@scripts/environment.sh runtime

dev:
	@scripts/environment.sh dev
