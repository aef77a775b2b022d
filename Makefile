# Each target builds the environment that it needs; only Python >= 3.11 with venv and pip must be there.
#
#   make demo    a trained classifier and a trained transformer, compiled by Zenith, beside NumPy and PyTorch
#   make test    lint, types, tests
#   make fuzz    FUZZ_PROGRAMS random programs through every pass and backend
#   make train   200 steps of a transformer with four layers, beside nine runs of PyTorch
#   make bench   measure everything into benchmarks/results, print the tables, renew the README's
#   make docs    regenerate ARCHITECTURE.md

PYTHON ?= python3
VENV ?= .venv
FUZZ_PROGRAMS ?= 5000

BIN := $(VENV)/bin

# One stamp for each set of extras, renewed when what must be installed changes.
EXTRAS_demo := torch,demo
EXTRAS_bench := torch,demo,bench
EXTRAS_test := torch,test,demo,bench,dev

.PHONY: demo test lint pytest fuzz train bench docs format clean
.DELETE_ON_ERROR:

demo: $(VENV)/demo.stamp
	$(BIN)/python examples/demo.py

test: lint pytest

lint: $(VENV)/test.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Whatever measures time runs alone; everything else shares the cores.
pytest: $(VENV)/test.stamp
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal -m "not timing"
	$(BIN)/python -m pytest -m timing

fuzz: $(VENV)/test.stamp
	ZENITH_FUZZ_PROGRAMS=$(FUZZ_PROGRAMS) $(BIN)/python -m pytest --numprocesses auto -m fuzz

train: $(VENV)/test.stamp
	ZENITH_TRAINING=whole $(BIN)/python -m pytest tests/transforms/test_training_transformer.py

bench: $(VENV)/bench.stamp
	$(BIN)/python -m benchmarks run
	$(BIN)/python -m benchmarks table
	$(BIN)/python -m benchmarks.readme

docs: $(VENV)/test.stamp
	$(BIN)/python docs/make_architecture.py

format: $(VENV)/test.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/%.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[$(EXTRAS_$*)]"
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
