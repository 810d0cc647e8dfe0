# Two commands do everything on a machine with Python 3.10+ and Java 17+: `make demo` and `make test`.
SHELL := /bin/bash
.DEFAULT_GOAL := help

NEWEST := pyspark[connect]==4.3.0
OLDEST := pyspark[connect]==4.0.0
VENV := .venv
VENV_OLDEST := .venv-oldest
VENV_DOCS := .venv-docs
URI ?=

# Each of the hundreds of processes that tests start would compile pandas, pylance and this package again.
unexport PYTHONDONTWRITEBYTECODE

# Spark's workers must run the interpreter that has the wheel, not whichever python3 is first on the PATH.
with_python = PYSPARK_PYTHON=$(CURDIR)/$(1)/bin/python PYSPARK_DRIVER_PYTHON=$(CURDIR)/$(1)/bin/python
in_memory = .ci/in-memory env
in_venv = $(call with_python,$(1)) $(1)/bin/python

# The test files with a mark: to collect all others takes longer than the pure tests.
marked = $$(grep -rl 'pytest.mark.$(1)' --include='test_*.py' tests)

.PHONY: help demo check unit test test-nightly browser test-versions test-oldest lint docs dist bench bench-cleanup bench-merge bench-catalog bench-growth bench-lake bench-native bench-tpch bench-rows bench-upkeep bench-search bench-streams bench-streams-source venv venv-oldest venv-docs clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 23

# The JVM is done before its better compiler has paid off: without it the demo takes a third less CPU time.
demo_jvm := -Dlog4j2.configurationFile=conf/log4j2.properties -XX:TieredStopAtLevel=1 -XX:+UseSerialGC

demo: venv ## write, audit, publish on 336,776 flights (URI=s3://... to run it elsewhere)
	@$(call with_python,$(VENV)) $(VENV)/bin/spark-submit --properties-file conf/spark-defaults.conf \
	    --driver-java-options '$(demo_jvm)' \
	    jobs/write_audit_publish.py $(if $(URI),--uri $(URI)) $(ARGS)

check: venv ## lint, types and the pure tests, side by side: less than a minute, for before each commit
	@$(MAKE) --no-print-directory --jobs 2 lint unit

unit: venv ## the pure tests
	@$(call in_venv,$(VENV)) -m pytest --quiet $(call marked,pure) $(ARGS)

# tests/support/kinds.py says which tests share a process, in what order they begin, and which are for the night.
test: venv ## all tests on the newest Spark
	@$(in_memory) $(call with_python,$(VENV)) $(VENV)/bin/python -m pytest --numprocesses 3 --dist loadgroup --no-loadscope-reorder $(ARGS)

test-nightly: venv venv-oldest docs ## every case, and long campaigns of random histories: hours; resumes (ARGS="--list")
	-@$(MAKE) --no-print-directory browser
	@$(VENV)/bin/python .ci/night.py $(ARGS)

browser: venv ## playwright and a Chromium, for the tests of pages at night and for docs/pictures/photograph.py
	@.ci/browser $(VENV)

test-versions: venv ## other Sparks, Pythons, pandas, pyarrow and pylance, for once a week (ARGS="spark-4.1 --jobs 1")
	@$(VENV)/bin/python .ci/versions.py $(ARGS)

test-oldest: venv-oldest ## on the oldest Spark, the Spark tests that may differ there
	@$(in_memory) $(call with_python,$(VENV_OLDEST)) $(VENV_OLDEST)/bin/python -m pytest -m spark $(call marked,spark) $(ARGS)

lint: venv ## ruff, mypy, import contracts
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo
	@$(call in_venv,$(VENV)) -m pytest --quiet tests/whole/test_architecture.py -k 'circles or name or decisions or jvm'

docs: venv-docs ## the documentation as a site in site/, with a search and the API; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(VENV_DOCS)/bin/mkdocs build --quiet --strict
	@echo "open $(CURDIR)/site/index.html, or run $(VENV_DOCS)/bin/mkdocs serve"

dist: venv ## wheel and sdist in dist/; the wheel is installed into a fresh environment and the demo run from it
	@.ci/dist $(VENV)/bin/uv '$(NEWEST)'

bench: venv ## the benchmark against its peers
	@$(call in_venv,$(VENV)) -m benchmarks $(ARGS)

bench-cleanup: venv ## the benchmark of cleanups, beside pylance's own (ARGS="--only a,c --scale 0.1")
	@$(call in_venv,$(VENV)) -m benchmarks.cleanup $(ARGS)

bench-merge: venv ## the benchmark of merges and of lance-git (ARGS="--only a,c --scale 0.1")
	@$(call in_venv,$(VENV)) -m benchmarks.merge $(ARGS)

bench-native: venv ## reading with plain DataFrame code, beside Parquet (ARGS="--rows 1000000 --jvm-jar FILE")
	@$(call in_venv,$(VENV)) -m benchmarks.native $(ARGS)

bench-tpch: venv ## TPC-H in plain SQL, beside Parquet (ARGS="--scale 1 --queries 1,6 --jvm-jar FILE --ansi off")
	@$(call in_venv,$(VENV)) -m benchmarks.tpch $(ARGS)

bench-rows: venv ## the benchmark of row and column changes (ARGS="--rows 1000000 --delta-jars A,B")
	@$(call in_venv,$(VENV)) -m benchmarks.rows $(ARGS)

bench-upkeep: venv ## the benchmark of compaction, orders, indexes, storage and fsck (ARGS="--only a,c --scale 0.1")
	@$(call in_venv,$(VENV)) -m benchmarks.upkeep $(ARGS)

bench-search: venv ## the benchmark of searches, beside pylance (ARGS="--rows 100000 --only join")
	@$(call in_venv,$(VENV)) -m benchmarks.search $(ARGS)

bench-streams: venv ## the benchmark of streams into a branch, beside Spark's Parquet sink (ARGS="--rows 1000000")
	@$(call in_venv,$(VENV)) -m benchmarks.streams $(ARGS)

bench-streams-source: venv ## the benchmark of streams out of a table, beside a batch read (ARGS="--rows 1000000")
	@$(call in_venv,$(VENV)) -m benchmarks.streams_source $(ARGS)

bench-catalog: venv ## the benchmark of catalogs, beside pylance's (ARGS="--only local --tables 1000")
	@$(call in_venv,$(VENV)) -m benchmarks.catalog $(ARGS)

bench-lake: venv ## the benchmark of branches of a whole lake (ARGS="--only s3 --tables 1000")
	@$(call in_venv,$(VENV)) -m benchmarks.lake $(ARGS)

bench-layout: venv ## planning, joins, MERGE and small batches with partitions and without (ARGS="--only joins --rows 4000000")
	@$(call in_venv,$(VENV)) -m benchmarks.layout $(ARGS)

bench-growth: venv ## how verbs grow with files, versions, branches, tables, rows (ARGS="--only fsck --limit 60")
	@$(call in_venv,$(VENV)) -m benchmarks.growth $(ARGS)

venv:
	@.ci/venv $(VENV) '$(NEWEST)' test,lint,demo,bench

venv-oldest:
	@.ci/venv $(VENV_OLDEST) '$(OLDEST)' test,demo,bench

venv-docs:
	@.ci/venv $(VENV_DOCS) '$(NEWEST)' docs

clean: ## remove the virtual environments and what runs left behind
	rm -rf $(VENV) $(VENV_OLDEST) $(VENV_DOCS) site dist demo-output spark-warehouse artifacts .pytest_cache .mypy_cache .ruff_cache .hypothesis
