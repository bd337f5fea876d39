# Everything a developer of manyhands runs. `make` alone lists the targets.
#
# It needs Python >= 3.11 with venv, a Rust toolchain and make; the rest is installed into .venv. What was done is
# remembered by stamp files inside .venv, so that a second run costs next to nothing and needs no network.

PYTHON ?= python3

VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
PY := $(BIN)/python
PIP := $(PY) -m pip --disable-pip-version-check
# What is installed has the versions of this file, whichever group asks for it. `make lock` writes it.
LOCK := requirements/lock.txt
PIP_INSTALL := $(PIP) install --quiet --constraint $(LOCK)

TOOLS := $(VENV)/stamp-tools
EXTENSION := $(VENV)/stamp-extension
LINT := $(VENV)/stamp-lint
CHECK := $(VENV)/stamp-check
DEV := $(VENV)/stamp-dev
BENCH := $(VENV)/stamp-bench
FUZZ := $(VENV)/stamp-fuzz
MUTANTS := $(VENV)/stamp-mutants
AUDIT := $(VENV)/stamp-audit
DOCS := $(VENV)/stamp-docs
RELOCK := $(VENV)/stamp-lock

# Programs of cargo that only some targets need are kept out of the user's own. They are compiled once and run for
# seconds, so they are not optimized.
CARGO_TOOLS := $(abspath $(VENV))/cargo
WITH_CARGO_TOOLS := PATH="$(CARGO_TOOLS)/bin:$$PATH"

# Where real data sets lie.
DATA ?= ../shared/data

# How often `make explore` draws new examples, and how many of them each property test of Rust tries.
EXPLORE_ROUNDS ?= 3
EXPLORE_CASES ?= 5000

# How long each fuzz target runs, and what watches over its memory: none is quicker, address sees more.
FUZZ_SECONDS ?= 60
FUZZ_SANITIZER ?= none
FUZZ_RUST := integers text table agreement
FUZZ_PYTHON := load read export shard conll fields

# How many changes of the code are tried in each area, and which.
MUTANTS_SAMPLE ?= 20
MUTANTS_SEED ?= 1

# Arguments of cargo audit: `--db FOLDER --no-fetch` where the advisories cannot be fetched.
AUDIT_ARGS ?=

RUST_SOURCES := $(shell find rust -name '*.rs')
MANIFESTS := Cargo.toml pyproject.toml $(wildcard Cargo.lock)

# In CI the lock file must already say what will be built; at home a new dependency may still write itself in.
LOCKED := $(if $(CI),$(if $(wildcard Cargo.lock),--locked))

# An activated environment of the user's must not receive our packages: maturin follows these two variables.
IN_VENV := env -u CONDA_PREFIX VIRTUAL_ENV="$(abspath $(VENV))"

# The stamp speaks for the compiled file: where that was deleted, the stamp is void.
ifeq ($(wildcard python/manyhands/_core*.so python/manyhands/_core*.pyd),)
.PHONY: $(EXTENSION)
endif

# Tests start hundreds of interpreters: where a setting forbids Python to keep
# what it compiled, each would compile the whole library again.
unexport PYTHONDONTWRITEBYTECODE

# Cargo locks its directory anyway, and interleaved logs are hard to read.
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

.PHONY: help build demo check test explore docs notebooks bench reproduce reproduce-all fuzz mutants audit lock wheel
.PHONY: lint format clean
.PHONY: check-rustfmt check-clippy check-ruff check-house check-types test-rust test-python

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

build: $(EXTENSION) ## make .venv and compile the release extension into it

demo: build ## simulate a million annotations, aggregate them, show accuracy next to confidence and the worst workers
	@mkdir -p demo
	$(BIN)/manyhands simulate --tasks 200000 --workers 1000 --classes 5 --labels-per-task 5 --seed 0 \
		--crowd class-conditional=0.915,spammers=0.08,adversary=0.005 -o demo/log.parquet --truth demo/truth.parquet
	$(BIN)/manyhands aggregate demo/log.parquet -o demo/labels.parquet --workers demo/workers.csv \
		--evaluate demo/truth.parquet
	$(BIN)/manyhands workers demo/log.parquet --worst 10

# As many processes as there are processors, but not so many that each one's threads get in the way of the others'.
PARALLEL := --numprocesses auto --maxprocesses 4 --dist worksteal

check: $(EXTENSION) $(CHECK) ## the quick tier: ruff, and the Python tests that need neither PyTorch nor Spark nor a browser
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m pytest $(PARALLEL) --quick tests
	@echo "make check: all passed"

# The quick checks come first, so that a slip in formatting is reported before anything is compiled.
test: lint test-rust test-python ## all Rust and Python tests, lint and types
	@$(call warn_missing,fmt,rustfmt) $(call warn_missing,clippy,clippy) echo "make test: all passed"

# What fails is kept under target/explore and tried again first, by Rust in proptest-regressions; the log prints how to
# reproduce it. Both say "failed" only after all rounds.
explore: $(EXTENSION) $(DEV) ## property tests with random examples in a random order, EXPLORE_ROUNDS=3 times; findings go to target/explore
	@mkdir -p target/explore
	@failed=0; \
	for round in $$(seq $(EXPLORE_ROUNDS)); do \
		log=target/explore/$$(date +%Y%m%dT%H%M%S); \
		echo "round $$round: $$log.*.log"; \
		PROPTEST_CASES=$(EXPLORE_CASES) cargo test --lib $(LOCKED) >$$log.rust.log 2>&1 \
			|| { failed=1; tail -n 40 $$log.rust.log; }; \
		$(PY) -m pytest $(PARALLEL) -p randomly -m "hypothesis and not spark" --hypothesis-profile=explore \
			>$$log.python.log 2>&1 || { failed=1; grep -A40 "^___" $$log.python.log; tail -n 20 $$log.python.log; }; \
	done; exit $$failed

# Once the packages are there, neither needs a network.
docs: $(EXTENSION) $(DEV) $(DOCS) ## build the documentation as a site, target/docs/html
	$(PY) scripts/docs.py

notebooks: $(EXTENSION) $(DEV) $(DOCS) ## run the tutorials again, and save what they print and draw
	$(PY) scripts/notebooks.py

bench: $(EXTENSION) $(BENCH) ## time whole fits against other libraries, then the kernels (BENCH_ARGS=... goes to the former)
	$(PY) benches/aggregate.py $(BENCH_ARGS)
	cargo bench $(LOCKED)

reproduce: $(EXTENSION) $(DEV) ## try the papers' headline figures again, those that are quick to have (DATA=folder of data sets)
	$(PY) benches/reproduce.py --run short --data $(DATA)

reproduce-all: $(EXTENSION) $(DEV) ## all of the papers' figures: hours
	$(PY) benches/reproduce.py --run all --data $(DATA)

# What the engine learns goes to target/fuzz, and what it finds to target/fuzz/surprises; the corpora in fuzz/corpus are
# only read. The engine asks the compiler for what is otherwise kept for nightly toolchains.
fuzz: $(EXTENSION) $(FUZZ) ## feed strangers' bytes to every reader, FUZZ_SECONDS=60 each, guided by coverage (Linux)
	@mkdir -p target/fuzz/surprises $(addprefix target/fuzz/,$(FUZZ_RUST) $(FUZZ_PYTHON))
	@set -ex; for target in $(FUZZ_RUST); do \
		$(WITH_CARGO_TOOLS) RUSTC_BOOTSTRAP=1 RAYON_NUM_THREADS=1 cargo fuzz run --sanitizer $(FUZZ_SANITIZER) \
			$$target target/fuzz/$$target fuzz/corpus/$$target -- -max_total_time=$(FUZZ_SECONDS) \
			-artifact_prefix=$(abspath target/fuzz/surprises)/$$target- -print_final_stats=1; done
	@set -ex; for target in $(FUZZ_PYTHON); do \
		$(PY) fuzz/run.py $$target target/fuzz/$$target fuzz/corpus/$$target -max_total_time=$(FUZZ_SECONDS) \
			-artifact_prefix=$(abspath target/fuzz/surprises)/$$target- -max_len=16384 -print_final_stats=1; done

mutants: $(EXTENSION) $(DEV) $(MUTANTS) ## change the code at random, MUTANTS_SAMPLE=20 an area: do the tests notice?
	@set -x; failed=0; \
	$(PY) scripts/mutants.py --sample $(MUTANTS_SAMPLE) --seed $(MUTANTS_SEED) || failed=1; \
	$(WITH_CARGO_TOOLS) $(PY) scripts/rust_mutants.py --sample $(MUTANTS_SAMPLE) --seed $(MUTANTS_SEED) || failed=1; \
	exit $$failed

# Versions that are in the file stay, unless LOCK_ARGS=--upgrade, or LOCK_ARGS="--upgrade-package NAME".
lock: $(RELOCK) ## write requirements/lock.txt from the groups of pyproject.toml (LOCK_ARGS=--upgrade for newer versions)
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --no-annotate \
		--custom-compile-command "make lock" $(LOCK_ARGS) --output-file $(LOCK) pyproject.toml \
		$(addprefix --group ,test lint bench docs fuzz mutants audit build)

audit: $(EXTENSION) $(DEV) $(AUDIT) ## look up known weaknesses of all that we depend on
	$(WITH_CARGO_TOOLS) $(PY) scripts/audit.py $(AUDIT_ARGS)

# The wheel is built from the unpacked sdist, whose files all bear an old date: in a shared target folder cargo would
# take what it compiled there before for the same thing. So it compiles afresh, in a folder of its own.
wheel: $(TOOLS) ## build sdist and abi3 wheel into dist/, try the wheel where there is no compiler
	rm -rf dist
	env -u CARGO_TARGET_DIR $(IN_VENV) $(PY) -m maturin build --profile dist --sdist $(LOCKED) --out dist
	$(PY) scripts/smoke_wheel.py dist

lint: check-rustfmt check-ruff check-house check-clippy check-types ## formatting, lints and types, Rust and Python

format: $(LINT) ## rewrite Rust and Python sources in the house format
	cargo fmt
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

clean: ## delete everything that can be made again
	rm -rf $(VENV) target fuzz/target dist demo .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -f python/manyhands/_core*.so python/manyhands/_core*.pyd
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the parts of `make test` ---------------------------------------------------------------------------------------

# A minimal toolchain lacks rustfmt and clippy. That does not depend on the code, so it is reported and does not fail.
has_component = cargo $(1) --version >/dev/null 2>&1
warn_missing = $(has_component) || echo "skipped: $(2) is not installed (rustup component add $(2))";

check-rustfmt:
	@if $(call has_component,fmt); then set -x; cargo fmt --check; else $(call warn_missing,fmt,rustfmt) fi

check-clippy: $(TOOLS)
	@if $(call has_component,clippy); then set -ex; \
		cargo clippy $(LOCKED) --all-targets -- -D warnings; \
		PYO3_PYTHON="$(abspath $(PY))" cargo clippy $(LOCKED) --lib --features python -- -D warnings; \
	else $(call warn_missing,clippy,clippy) fi

check-ruff: $(LINT)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

# Files and commits, language, spelling, imports between packages, and the form of docstrings.
check-house: $(LINT)
	$(PY) scripts/house.py
	$(BIN)/typos
	PYTHONPATH=python $(BIN)/lint-imports --no-cache
	$(BIN)/numpydoc lint $(wildcard python/manyhands/*.py python/manyhands/*/*.py python/manyhands/*/*/*.py)

check-types: $(EXTENSION) $(DEV)
	$(PY) -m mypy
	$(PY) -m mypy.stubtest manyhands._core

# The library alone: there are no documentation tests, for which all would be compiled a second time. Property tests try
# the same examples in every run, as those of Python do; `make explore` tries others.
test-rust:
	PROPTEST_RNG_SEED=1 cargo test --lib $(LOCKED)

# Tests on Spark share a session, and come after.
test-python: $(EXTENSION) $(DEV)
	$(PY) -m pytest $(PARALLEL) -m "not spark"
	$(PY) -m pytest -m spark tests

# --- the environment ------------------------------------------------------------------------------------------------

# Only what compiling needs. pip must know dependency groups (25.1).
$(TOOLS): pyproject.toml $(LOCK)
	@command -v $(PYTHON) >/dev/null || { echo "manyhands needs Python 3.11 or newer, and there is no '$(PYTHON)': \
	try make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("manyhands needs Python 3.11 or newer, \
	and $(PYTHON) is %d.%d: try make PYTHON=/path/to/python" % v[:2])'
	@command -v cargo >/dev/null || { echo "manyhands needs a Rust toolchain, and there is no 'cargo': \
	see https://rustup.rs" >&2; exit 1; }
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) pip
	$(PIP_INSTALL) --group build
	@touch $@

# An editable install: edited Python files are in force at once, and only Rust or a manifest calls for this again.
# The group is named because maturin would install all of `dev` otherwise.
$(EXTENSION): $(RUST_SOURCES) $(MANIFESTS) | $(TOOLS)
	PIP_QUIET=1 PIP_CONSTRAINT=$(LOCK) $(IN_VENV) $(PY) -m maturin develop --release --group build $(LOCKED)
	@touch $@

$(LINT): pyproject.toml $(LOCK) | $(TOOLS)
	$(PIP_INSTALL) --group lint
	@touch $@

$(CHECK): pyproject.toml $(LOCK) | $(TOOLS)
	$(PIP_INSTALL) --group check
	@touch $@

$(DEV): pyproject.toml $(LOCK) | $(TOOLS)
	$(PIP_INSTALL) --group dev
	@touch $@

$(BENCH): pyproject.toml $(LOCK) | $(TOOLS)
	$(PIP_INSTALL) --group bench
	@touch $@

$(DOCS): pyproject.toml $(LOCK) | $(TOOLS)
	$(PIP_INSTALL) --group docs
	@touch $@

$(FUZZ): pyproject.toml $(LOCK) fuzz/Cargo.toml | $(TOOLS)
	$(PIP_INSTALL) --group fuzz
	cargo install --quiet --locked --debug --root "$(CARGO_TOOLS)" cargo-fuzz@0.13.2
	@touch $@

# Not pinned: it only writes the file.
$(RELOCK): pyproject.toml | $(TOOLS)
	$(PIP) install --quiet --group lock
	@touch $@

$(MUTANTS): | $(TOOLS)
	cargo install --quiet --locked --debug --root "$(CARGO_TOOLS)" cargo-mutants@27.1.0
	@touch $@

$(AUDIT): pyproject.toml $(LOCK) | $(TOOLS)
	$(PIP_INSTALL) --group audit
	cargo install --quiet --locked --debug --root "$(CARGO_TOOLS)" cargo-audit@0.22.2
	@touch $@
