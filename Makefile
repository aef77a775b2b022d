# Each target builds the environment that it needs; only Python >= 3.11 with venv and pip must be there.
#
#   make demo    a trained classifier and a trained transformer, compiled by Zenith, beside NumPy and PyTorch
#   make test    lint, types, tests
#   make quick   lint, types, and some short test files of every package: two minutes on two cores
#   make fuzz    FUZZ_PROGRAMS random programs through every pass and backend, and tests that take long
#   make test-min  a share of the tests with the lowest versions that pyproject.toml admits
#   make conformance  the array API standard's own tests on compiled functions
#   make train   200 steps of a transformer with four layers, beside nine runs of PyTorch
#   make bench   measure everything into benchmarks/results, print the tables, renew those of the documents
#   make docs    regenerate ARCHITECTURE.md, chapters of docs/ and zenith/ir/builder_methods.pyi, and the site in build/site
#   make notebooks  run the notebooks and store their outputs in them
#   make bench-numpy  race each of NumPy's functions alone, on three sizes
#   make gpu     on a machine with a GPU: what is found, tests, benchmarks (see below)

PYTHON ?= python3
VENV ?= .venv
FUZZ_PROGRAMS ?= 5000

BIN := $(VENV)/bin

# One stamp for each set of extras, renewed when what must be installed changes.
EXTRAS_demo := torch,demo
EXTRAS_bench := torch,demo,bench
EXTRAS_test := torch,test,demo,bench,dev

.PHONY: demo test quick test-min lint pytest fuzz conformance train bench bench-numpy docs notebooks format clean
.PHONY: gpu gpu-check gpu-tests gpu-bench gpu-profiles gpu-bench-autotune gpu-table gpu-wheels
.DELETE_ON_ERROR:

demo: $(VENV)/demo.stamp
	$(BIN)/python examples/demo.py

test: lint pytest

lint: $(VENV)/test.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --num-workers auto

# Whatever measures time runs alone; everything else shares the cores. Of the few files that do, no other is collected.
pytest: $(VENV)/test.stamp
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal -m "not timing and not thorough"
	$(BIN)/python -m pytest -m timing $$(grep -rl --include="test_*.py" "pytest\.mark\.timing" tests)

# Files of every package that take seconds and fail early.
QUICK := tests/test_architecture.py tests/test_tree.py tests/trace \
	$(foreach n,jit stages specialize names user_passes,tests/api/test_$n.py) \
	$(foreach n,graph control complex dims,tests/ir/test_$n.py) \
	$(foreach n,rewrite dce cse fold movement rules fuse,tests/passes/test_$n.py) \
	$(foreach n,ufuncs indexing reductions shaping,tests/numpy/test_$n.py) \
	$(foreach n,versions scatter,tests/backends/test_$n.py) \
	$(foreach n,emit scalars threads stored,tests/backends/cpu/test_$n.py) \
	$(foreach n,launch executable cudnn tuning,tests/backends/cuda/test_$n.py) \
	$(foreach n,products vectorize losses,tests/transforms/test_$n.py) \
	$(foreach n,gradient_flags stages messages,tests/torch/test_$n.py) \
	tests/control/test_branches.py tests/nn/test_activations.py tests/outside/test_callback.py \
	tests/eject/test_hostile_names.py tests/random/test_transforms.py
quick: lint
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal -m "not timing and not thorough and not fuzz" $(QUICK)

fuzz: $(VENV)/test.stamp
	ZENITH_FUZZ_PROGRAMS=$(FUZZ_PROGRAMS) $(BIN)/python -m pytest --numprocesses auto --dist worksteal -m "fuzz or thorough"

# A fresh environment of its own with the lowest declared versions, without PyTorch and what else is optional. What they
# warn of, beside newer packages that they need themselves, is theirs. Left out is what asks for those options, for
# signatures of functions in C and a form of numpy.pad, which NumPy has from 2.4 on, and for a bfloat16 of an int64.
MIN_VENV ?= build/venv-min
MIN_TESTS := tests/test_config.py tests/test_cli.py tests/test_tree.py tests/trace tests/ir/test_text.py \
	$(foreach n,promotion counting shaping searching ufuncs,tests/numpy/test_$n.py) \
	$(foreach n,link stored,tests/backends/cpu/test_$n.py)
MIN_LEFT_OUT := each_check or numpys_names or pad or round_trip
test-min:
	rm -rf $(MIN_VENV)
	$(PYTHON) -m venv $(MIN_VENV)
	$(MIN_VENV)/bin/python -m pip install --quiet --constraint constraints-min.txt --editable . \
		"hypothesis>=6.100" "pytest>=8.2"
	$(MIN_VENV)/bin/python -m pytest -W default -p no:cacheprovider -m "not thorough and not timing and not fuzz" \
		-k "not ($(MIN_LEFT_OUT))" $(MIN_TESTS)

# The array API standard's own test suite, from a checkout (SUITE=path) or from the network.
SUITE ?= build/array-api-tests
SUITE_COMMIT := 55fcc60
conformance: $(VENV)/test.stamp $(SUITE)
	$(BIN)/pip install --quiet pytest-json-report "ndindex>=1.8"
	$(BIN)/python -m tests.conformance $(SUITE)

build/array-api-tests:
	git clone --quiet https://github.com/data-apis/array-api-tests $@
	cd $@ && git checkout --quiet $(SUITE_COMMIT) && git submodule update --init --quiet

train: $(VENV)/test.stamp
	ZENITH_TRAINING=whole $(BIN)/python -m pytest tests/transforms/test_training_transformer.py

bench: $(VENV)/bench.stamp
	$(BIN)/python -m benchmarks run
	$(BIN)/python -m benchmarks table
	$(BIN)/python -m benchmarks.decoding build/tiny-llama --make
	$(BIN)/python -m benchmarks.readme

# Each of NumPy's functions against its compiled self, in a few minutes.
bench-numpy: $(VENV)/bench.stamp
	$(BIN)/python -m benchmarks.functions
	$(BIN)/python -m benchmarks.readme

# A machine with a GPU may have no network, and packages of its own: these targets take its Python as it is, with wheels
# from the folder GPU_WHEELS where packages are missing. Every part ends within ten minutes, can be named alone, and
# stores what it finds in GPU_RESULTS as it comes. `make gpu-wheels`, elsewhere, fills a folder of wheels.
GPU_PYTHON ?= python3
GPU_WHEELS ?=
GPU_SITE ?= build/gpu-site
GPU_RESULTS ?= benchmarks/results/gpu
GPU_WORKERS ?= 8
GPU_SECONDS ?= 540
GPU_TARGET := --python-version 3.12 --implementation cp $(foreach n,2_28 2_27 2_24 2_17 2014,--platform manylinux$(if \
	$(findstring _,$(n)),_)$(n)_x86_64)
GPU_RUN := env PYTHONPATH=$(CURDIR):$(abspath $(GPU_SITE)) $(GPU_PYTHON)

# All parts, also when an earlier one failed; without a GPU nothing is tried.
gpu: gpu-check
	@failed=; for part in gpu-tests gpu-bench gpu-profiles gpu-bench-autotune gpu-table; do \
		$(MAKE) --no-print-directory $$part || failed="$$failed $$part"; done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

gpu-check: $(GPU_SITE)/stamp
	$(GPU_RUN) -m benchmarks.gpu.check

# Interrupted when the time is over, so that what has failed by then is still told.
gpu-tests: $(GPU_SITE)/stamp
	mkdir -p $(GPU_RESULTS)
	ZENITH_GPU=required timeout --signal=INT $(GPU_SECONDS) $(GPU_RUN) -m pytest -m gpu -W default -p no:cacheprovider \
		$$($(GPU_RUN) -c "import xdist" 2>/dev/null && echo --numprocesses $(GPU_WORKERS) --dist worksteal) \
		tests/gpu tests/backends/test_registry.py > $(GPU_RESULTS)/tests.txt 2>&1; \
	status=$$?; tail -n 60 $(GPU_RESULTS)/tests.txt; exit $$status

gpu-bench: $(GPU_SITE)/stamp
	$(GPU_RUN) -m benchmarks.gpu run --seconds $(GPU_SECONDS) --output $(GPU_RESULTS)

gpu-profiles: $(GPU_SITE)/stamp
	timeout --signal=INT $(GPU_SECONDS) $(GPU_RUN) -m benchmarks.gpu profile --folder $(GPU_RESULTS)

gpu-bench-autotune: $(GPU_SITE)/stamp
	$(GPU_RUN) -m benchmarks.gpu run --autotune --seconds $(GPU_SECONDS) --output $(GPU_RESULTS)/autotune

gpu-table: $(GPU_SITE)/stamp
	$(GPU_RUN) -m benchmarks.gpu table --folder $(GPU_RESULTS)

$(GPU_SITE)/stamp: $(if $(GPU_WHEELS),$(wildcard $(GPU_WHEELS)/*.whl))
	mkdir -p $(GPU_SITE)
	$(if $^,$(GPU_PYTHON) -m pip install --quiet --no-index --no-deps --no-compile --upgrade --target $(GPU_SITE) $^)
	touch $@

gpu-wheels:
	@test -n "$(GPU_WHEELS)" || { echo "say GPU_WHEELS=FOLDER"; exit 1; }
	$(GPU_PYTHON) -m pip download --quiet --no-deps --only-binary=:all: $(GPU_TARGET) --dest $(GPU_WHEELS) \
		--requirement benchmarks/gpu/requirements.txt
	du -sh $(GPU_WHEELS)

docs: $(VENV)/test.stamp
	$(BIN)/python docs/make_architecture.py
	$(BIN)/python docs/make_coverage.py
	$(BIN)/python docs/make_settings.py
	$(BIN)/python docs/make_builder_stub.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

notebooks: $(VENV)/test.stamp
	$(BIN)/python docs/make_notebooks.py

format: $(VENV)/test.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# pip writes byte code on one core. What is for other versions of Python, as py312_*.py, is none for this one.
$(VENV)/%.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[$(EXTRAS_$*)]"
	-$(BIN)/python -W ignore -m compileall -qq -j 0 -x '/py3[0-9]+_' $(VENV)/lib
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
