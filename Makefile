# Everything a person or a machine does with this repository. `make` alone lists it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
# Arguments for `viv`: make run ARGS="--listen 127.0.0.1:7900"
ARGS ?=
# `make torture`: for how many minutes, or until how many deaths; which sabotage it is to catch.
MINUTES ?=
KILLS ?= 200
SABOTAGE ?=

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
VIV := $(abspath $(TARGET_DIR))/debug/viv
VIV_RELEASE := $(abspath $(TARGET_DIR))/release/viv

# The build with failpoints (named points at which a test can make it die), under another name. It shares all
# dependencies with the ordinary build, since their features are the same. `viv` is built again afterwards, so
# that the two are never confused.
with-failpoints = $(CARGO) build --locked --workspace --bin viv --features cli/failpoints $(1) && \
	cp -f $(abspath $(TARGET_DIR))/$(2)/viv $(abspath $(TARGET_DIR))/$(2)/viv-failpoints

# One stage of `make test`: its name, then what it runs. Prints how long each stage took, and all of them at
# the end.
STAGES := $(abspath $(TARGET_DIR))/stages
stage = @echo '$(2)' && $(2) && mkdir -p $(dir $(STAGES)) && \
	printf '%-12s %5d s\n' '$(1)' "$$SECONDS" | tee -a $(STAGES)

# Tests that start the real binary find it here.
export VIV_BIN ?= $(VIV)

.PHONY: help run chat run-local test check fmt docs bench api-fuzz torture dist dist-check viv viv-failpoints long-life needs

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Around what Ctrl-C ends, which is no error.
live = trap : INT;
ended = || [ $$? -eq 130 ]

# The dev profile on purpose: it builds in a fraction of the release build's time, and an agent waits for its model, not for our
# code. SQLite is optimized anyway (see Cargo.toml). `make bench` and `make torture` measure the release build.
run: viv ## Start a living agent on this machine (then `make chat` in a second terminal)
	@$(live) $(VIV) up $(ARGS) $(ended)

chat: viv ## Talk to the agent that `make run` started
	@$(live) $(VIV) chat $(ARGS) $(ended)

run-local: viv ## Start it with a real small model, fetched once; no key needed
	@$(live) VIV=$(VIV) scripts/run-local.sh $(ARGS) $(ended)

# Each test in a process of its own where there is nextest for it. Two on each core: most of them wait for
# another process or a disk.
export NEXTEST_TEST_THREADS ?= $(shell expr 2 '*' "$$(getconf _NPROCESSORS_ONLN)")
TEST = $(if $(shell $(CARGO) nextest --version 2>/dev/null),nextest run,test --tests)
# All tests run with one build, which has failpoints: they do nothing where no test names one. The binaries are made with the tests.
TESTED := --locked --workspace --features cli/failpoints
test: export VIV_FAILPOINTS_BIN := $(VIV_BIN)

test: check ## Check everything, then run every test
	$(call stage,build,$(CARGO) $(TEST) $(TESTED) --no-run)
	$(call stage,tests,$(CARGO) $(TEST) $(TESTED))
	$(call stage,doc tests,$(CARGO) test $(TESTED) --doc --quiet)
	@# What a shipped build makes of the points.
	$(call stage,no points,$(CARGO) test --locked --package failpoint --lib --quiet)
	@awk '{ print; all += $$(NF - 1) } END { printf "%-12s %5d s\n", "in all", all }' $(STAGES)

check: needs ## Formatting and lints, warnings are errors
	@rm -f $(STAGES)
	$(call stage,format,$(CARGO) fmt --all --check)
	@# Fetches every platform's crates: the tidy test reads their licences without a network.
	$(call stage,fetch,$(CARGO) fetch --locked --quiet)
	$(call stage,clippy,$(CARGO) clippy --locked --workspace --all-targets --all-features -- -D warnings)

docs: needs ## Write the pages that are generated from the code
	VIV_WRITE_DOCS=1 $(CARGO) test --locked --quiet -p cli --test docs -- errors:: tables::
	VIV_WRITE_DOCS=1 $(CARGO) test --locked --quiet -p server --test main reference

fmt: ## Format the code
	$(CARGO) fmt --all

bench: needs ## Measure against floors of the same run (release build), write target/bench.json; or only ARGS=density
	@# Both at once: with `-p bench` each dependency would be built again with other features.
	$(CARGO) build --locked --release --bin viv --bin bench
	@VIV_BIN=$(VIV_RELEASE) exec $(abspath $(TARGET_DIR))/release/bench $(ARGS)

# The generator has a virtual environment of its own. Its version is fixed: a newer one finds other things.
API_FUZZ := $(abspath $(TARGET_DIR))/api-fuzz
api-fuzz: viv ## Ask a server thousands of generated requests with every kind of key, 5 minutes at most (Python 3.10)
	@python3 -m venv $(API_FUZZ)
	@$(API_FUZZ)/bin/pip install --quiet --disable-pip-version-check schemathesis==4.32.5
	@VIV=$(VIV) SCHEMATHESIS=$(API_FUZZ)/bin/st python3 scripts/api_fuzz.py

# Ends with one line of counts, and fails where a promise broke. VIV_SEED=n runs a seed again.
torture: needs ## Kill it in many ways for MINUTES=n or KILLS=n deaths (200), look for anything lost or doubled
	$(call with-failpoints,--release,release)
	$(CARGO) build --locked --release --workspace --bin viv --bin torture --bin counting-worker
	@VIV_BIN=$(VIV_RELEASE) VIV_MINUTES=$(MINUTES) VIV_KILLS=$(KILLS) VIV_SABOTAGE=$(SABOTAGE) \
		exec $(abspath $(TARGET_DIR))/release/torture

# Ends with what became of the facts, and fails where a request did not fit or memory grew.
long-life: needs ## Let an agent with a small window live 2 000 cycles, and ask it for 40 facts (release build, minutes; Python 3.10)
	$(CARGO) build --locked --release --bin viv
	@VIV=$(VIV_RELEASE) python3 scripts/long_life.py $(ARGS)

dist: needs ## Build static archives for x86_64 and aarch64, with checksums, and the files of the image
	@scripts/dist.sh

dist-check: dist ## Try what `make dist` made: static, complete, a conversation over TLS in an empty root
	@scripts/dist-check.sh

viv-failpoints: needs
	@$(call with-failpoints,,debug)
	@$(CARGO) build --locked --workspace --bin viv

viv: needs
	@$(CARGO) build --locked --bin viv

needs:
	@command -v $(CARGO) >/dev/null || { echo "cargo is needed to build Vivarium: install Rust (rustup), then run this again" >&2; exit 1; }
	@command -v $${CC:-cc} >/dev/null || { echo "a C compiler is needed to build the bundled SQLite: install one, for instance with \`apt-get install gcc libc6-dev\`, or name yours with CC" >&2; exit 1; }
