# Every command of the project. `make help` prints them.
#
# The first target that needs it creates $(VENV) from the hashed lock file, with uv if there is one, else with
# venv and pip. Nothing unpinned is fetched: the build backend is in the lock too.

VENV ?= .venv
BIN := $(VENV)/bin
DEV_LOCK := conf/locks/dev.txt
SERVER_LOCK := conf/locks/server.txt
GENERATOR_LOCK := conf/locks/generator.txt
CLIENT_LOCKS := conf/locks/client
READY := $(VENV)/.project-installed
GENERATOR := $(VENV)/.generator-installed
JAVA := $(VENV)/.java-home
# Override to test one part: make test TESTS=tests/core
TESTS ?= tests
# More options for pytest: make test PYTEST_ARGS="-x -k seal"
PYTEST_ARGS ?=
# How tests are spread over processes, two more than there are cores. One after the other: make test PARALLEL=
PARALLEL ?= --numprocesses=auto
# Histories of make simulate
SEEDS ?= 300
# Options for the benchmarks: make bench BENCH_ARGS="--only add,pop"
BENCH_ARGS ?=
# The harness around Pulsar's own trackers, for make bench-peers; without it they are left out
JAVA_TRACKER_BENCH ?=

# Tests start some hundreds of Pythons: where this is set, each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: bench bench-peers blocking boards client-environments demo format help install java lint lock other-languages proto pulsar-classes pulsar-plugin reference serve simulate test test-deep test-long

help:  ## print each target and what it does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(READY) $(JAVA)  ## track, deliver, crash and recover delayed messages that a real Pulsar wrote (under three minutes)
	$(BIN)/delayed-tracker demo

serve: $(READY)  ## run the service with conf/tracker.conf until interrupted
	$(BIN)/delayed-tracker serve --config conf/tracker.conf

test: $(READY) $(JAVA)  ## run the tests (six minutes on two cores)
	$(BIN)/python -m pytest -m "not deep and not long" $(PARALLEL) $(PYTEST_ARGS) $(TESTS)

test-long: $(READY) $(JAVA)  ## run the tests that take many seconds and seldom fail
	$(BIN)/python -m pytest -m "long and not deep" $(PARALLEL) $(PYTEST_ARGS) $(TESTS)

# Event loops in debug mode keep a stack for each task and timer, which doubles what tests of the service take.
DEEP = HYPOTHESIS_PROFILE=deep $(BIN)/python -m pytest -o asyncio_debug=true --timeout=3600
# pytest's status where no test was chosen
NONE_CHOSEN := 5

test-deep: $(READY) $(JAVA)  ## run all tests, the long and the deep ones included, with many more random examples
	status=0; \
	$(DEEP) -m "not alone" $(PARALLEL) $(PYTEST_ARGS) $(TESTS) || [ $$? -eq $(NONE_CHOSEN) ] || status=1; \
	$(DEEP) -m alone $(PYTEST_ARGS) $(TESTS) || [ $$? -eq $(NONE_CHOSEN) ] || status=1; \
	exit $$status

simulate: $(READY)  ## simulate histories with crashes and faults on all cores (SEEDS=300)
	$(BIN)/python -m tests.simulation --seeds $(SEEDS)

lint: $(READY) $(GENERATOR)  ## check style, types, imports between layers, and that generated files are fresh
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/docstrings.py
	.ci/buf/lint
	$(BIN)/python proto/regenerate.py --check
	$(BIN)/python -m docs.reference.regenerate --check
	$(BIN)/python tracker/regenerate_blocking.py --check
	$(BIN)/python -m grafana.regenerate --check

format: $(READY)  ## format the code and apply the linter's safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

pulsar-plugin:  ## build the plugin for Pulsar's brokers into pulsar-plugin/target, with a JDK and Maven
	mvn --batch-mode --quiet --file pulsar-plugin/pom.xml package

bench: $(READY) $(JAVA)  ## measure everything (minutes) and write tests/benchmarks/README.md
	$(BIN)/python -m tests.benchmarks $(BENCH_ARGS)

bench-peers: $(READY) $(JAVA)  ## the same, with Redis and (JAVA_TRACKER_BENCH=DIR) Pulsar's own trackers beside it
	$(BIN)/python -m tests.benchmarks --peers --java-bench "$(JAVA_TRACKER_BENCH)" $(BENCH_ARGS)

proto: $(READY) $(GENERATOR)  ## regenerate the protobuf code beside every proto/**/*.proto
	$(BIN)/python proto/regenerate.py

pulsar-classes: $(READY)  ## fetch the classes of Pulsar, its broker and BookKeeper's servers that tests use (needs a JDK and Maven; 173 MB)
	$(BIN)/python -m tests.jvm.pulsar_classes

other-languages: $(READY) $(GENERATOR)  ## compile the dispatchers of tests/client/other_languages (needs Go, a JDK and Maven; 100 MB)
	$(BIN)/python -m tests.client.other_languages.dispatchers

client-environments: $(READY)  ## fetch what tests/client/dependency_bounds tries the client with (140 MB)
	$(BIN)/python -m tests.client.dependency_bounds.environments

reference: $(READY)  ## regenerate conf/tracker.conf and the tables of docs/reference from code
	$(BIN)/python -m docs.reference.regenerate

blocking: $(READY)  ## regenerate parts of the blocking client from the asyncio client
	$(BIN)/python tracker/regenerate_blocking.py

boards: $(READY)  ## regenerate grafana/dashboards from the code beside it
	$(BIN)/python -m grafana.regenerate

lock:  ## resolve the dependencies anew into conf/locks (needs uv; UPGRADE=--upgrade takes newer versions)
	@command -v uv >/dev/null || { echo "make lock needs uv on the PATH: pip install uv" >&2; exit 1; }
	mkdir -p $(CLIENT_LOCKS)
	uv pip compile pyproject.toml --extra dev --output-file $(DEV_LOCK) $(LOCK_OPTIONS)
	uv pip compile pyproject.toml --extra server --constraint $(DEV_LOCK) --output-file $(SERVER_LOCK) $(LOCK_OPTIONS)
	uv pip compile --group generator --no-deps --output-file $(GENERATOR_LOCK) $(LOCK_OPTIONS)
	uv pip compile pyproject.toml --resolution lowest-direct --output-file $(CLIENT_LOCKS)/oldest.txt $(LOCK_OPTIONS)
	uv pip compile pyproject.toml --group protobuf-6 --output-file $(CLIENT_LOCKS)/protobuf-6.txt $(LOCK_OPTIONS)
	uv pip compile pyproject.toml --constraint $(DEV_LOCK) --output-file $(CLIENT_LOCKS)/newest.txt $(LOCK_OPTIONS)

# One version of each package for every Python, so that lint and tests judge the same everywhere.
LOCK_OPTIONS = --quiet --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --custom-compile-command "make lock" $(UPGRADE)

java: $(READY)  ## see to a Java that Spark can run on, installing one where that is allowed, and print where it is
	@.ci/java $(BIN)/python

install: $(READY)  ## create or update the virtual environment, if that is needed

# Runs again when the lock changes.
$(VENV)/.lock-installed: $(DEV_LOCK)
	@PYTHON="$(PYTHON)" .ci/setup dependencies $(VENV) $(DEV_LOCK)
	@touch $@

# It has an environment of its own: the generator is older than what runs its code.
$(GENERATOR): $(GENERATOR_LOCK) | $(READY)
	@.ci/setup generator $(VENV) $<

# Looked for once.
$(JAVA): | $(READY)
	@.ci/java $(BIN)/python >$@

# Runs again when names of packages, extras or commands change.
$(READY): $(VENV)/.lock-installed pyproject.toml
	@.ci/setup project $(VENV)
	@touch $@
