# `make` alone lists what there is. Everything runs in .venv, which makes itself.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# Where Airflow's, Spark's and our own commands are found, by us and by the processes that they start.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Spark else takes the address that the host name stands for, which may lead nowhere.
export SPARK_LOCAL_IP := 127.0.0.1
export PYTHONUNBUFFERED := 1
# The tests start a thousand Pythons; each would compile anew what it imports of this package, and rewrite every test.
unexport PYTHONDONTWRITEBYTECODE

# So many processes share the tests, most of which wait most of the time. Those that you name run in one, in order.
LANES ?= $(if $(ARGS),0,3)
PYTEST := python -m pytest -n $(LANES) $(ARGS)
CHECKED := airflow_provider_sfevents tests dags scripts benchmarks docs/conf.py

.PHONY: help demo ui test test-full test-org check check-format check-lint check-types check-imports check-house \
	format bench bench-year bench-connect proof soak histories lock proto docs docs-pages clean \
	runtime dev

help: ## list the targets
	@echo "make PYTHON=... takes that interpreter (3.11, 3.12 or 3.13); make test ARGS='-k name' picks tests, which LANES=3 spreads over processes"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: runtime ## events from an emulated Salesforce org into a Spark table, twice
	@python -m scripts.demo

ui: runtime ## Airflow in the browser with the emulator, the connections and the DAGs (PORT=8080)
	@python -m scripts.ui

# Pays from a few tests with Spark on.
SHARE_CLASSES := $(if $(ARGS),,@python -m tests.harness.classes)

test: dev ## all tests but the long ones
	$(SHARE_CLASSES)
	$(PYTEST) -m "not full"

# The long ones are named as they end, so that a run that is stopped tells what has failed.
test-full: dev ## all tests; a failure does not keep the long ones from telling what they know
	$(SHARE_CLASSES)
	@status=0; $(PYTEST) -m "not full" || status=1; $(PYTEST) -v --durations=40 --durations-min=20 -m "full and not soak" || status=1; exit $$status

test-org: dev ## the contract suite on a real org, whose allowances it uses; docs/how-to/contract-suite.md says what to set
	python -m pytest tests/contract --org --timeout=7200 $(ARGS)

check: check-format check-lint check-types check-imports check-house ## format, lint, types, import rules, house rules

check-format: dev
	ruff format --check $(CHECKED)

check-lint: dev
	ruff check $(CHECKED)

check-types: dev
	mypy $(CHECKED)

check-imports: dev
	lint-imports

check-house: dev
	python -m scripts.house_rules

format: dev ## put the code into the form that `make check` wants
	ruff format $(CHECKED)
	ruff check --fix $(CHECKED)

PROOF := tests/proof tests/spark/test_upkeep_killed.py tests/spark/test_apply_histories.py \
	tests/integration/positions/test_two_staging_areas.py tests/unit/model \
	tests/unit/changes/test_histories.py tests/integration/streaming/test_transport_histories.py
# Of the others only what is marked `soak`.
SOAKED := tests $(addprefix --ignore=,$(PROOF))

proof: dev ## kill at every named crash point, then print the figures
	@python -m tests.proof forget
	@status=0; python -m pytest -q $(PROOF) $(ARGS) || status=1; $(if $(ARGS),,python -m pytest -q -m soak $(SOAKED) || status=1;) python -m tests.proof report || status=1; exit $$status

soak: dev ## rounds of random kills and faults (ROUNDS=300 SEED=... SPARK_EVERY=25)
	@python -m tests.proof soak $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SEED),--seed $(SEED)) $(if $(SPARK_EVERY),--spark-every $(SPARK_EVERY))

histories: dev ## histories of an org, and of both APIs, with new seeds until one breaks a rule (ROUNDS=10)
	@for round in $$(seq $(or $(ROUNDS),10)); do \
		SFEVENTS_HISTORIES_SEED=random python -m pytest -q -n 2 tests/unit/changes/test_histories.py \
		tests/integration/streaming/test_transport_histories.py || exit 1; \
	done

bench: dev ## benchmarks, each figure with its limit or its peer
	python -m benchmarks

bench-year: dev ## upkeep of a year of batches, one every five minutes, in each format (half an hour)
	@status=0; for format in delta iceberg; do python -m benchmarks.upkeep 105120 $$format || status=1; done; exit $$status

bench-connect: dev ## a thousand landings over one Spark Connect server: its processes and memory
	python -m benchmarks.spark_connect 1000

lock: ## resolve the newest allowed packages into the lock files
	@scripts/lock.sh

docs: dev ## build the documentation as a site, in build/docs; a warning fails it
	@python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "build/docs/index.html"

docs-pages: dev ## make what comes from code in the reference: errors, Spark jobs, the page's API
	@python -m scripts.errors_page
	@python -m scripts.options_page
	@python -m scripts.openapi_file

proto: ## generate the Python code from pubsub_api.proto
	@scripts/proto.sh

clean: ## remove environment, caches and what the demo made
	rm -rf .venv .venv.log .demo .ui build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

runtime:
	@scripts/environment.sh runtime

dev:
	@scripts/environment.sh dev
