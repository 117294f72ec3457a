# The README's commands. Each works in a fresh clone: it creates .venv, installs pinned versions, then runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# One BLAS thread per process: the tests use one process per core.
TEST_ENV := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MPLBACKEND=Agg

QUICK_TESTS := tests/unit tests/reference src --ignore=tests/unit/benchmarks --ignore=tests/unit/experiments

.PHONY: demo serve test quick docs dist sbom lock soak screenshots bench claims trust lint format clean help

help: ## Show these targets.
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(INSTALLED) ## Run the main job: stations that learn together against stations that learn alone.
	$(BIN)/kinband demo

serve: $(INSTALLED) ## Start the service on a simulated network whose time runs fast.
	$(BIN)/kinband serve --demo

test: $(INSTALLED) ## Run every test, doctests included.
	$(TEST_ENV) $(BIN)/python -m pytest -n auto

quick: $(INSTALLED) ## The inner loop, a minute and a half on two idle cores: arithmetic, reference and doctests; no Ray, browser, PostgreSQL or command line.
	$(TEST_ENV) $(BIN)/python -m pytest -q -n auto -p no:schemathesis -k "not postgresql" $(QUICK_TESTS)

docs: $(VENV)/.docs ## Build the site of the pages and the reference of the API into out/site; a warning is an error.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

dist: $(INSTALLED) ## Build wheel and sdist into dist/, and try the wheel by itself in an empty environment.
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python tools/try_wheel.py dist

sbom: $(VENV)/.sbom ## Install what the service needs by its hashes, and list it with licences as CycloneDX in out/sbom.json.
	rm -rf out/sbom
	$(PYTHON) -m venv --without-pip out/sbom
	$(BIN)/python -m pip --python out/sbom/bin/python install --quiet --require-hashes --requirement requirements-service.txt
	$(BIN)/python -m pip --python out/sbom/bin/python install --quiet --no-deps .
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file out/sbom.json out/sbom/bin/python

lock: $(INSTALLED) ## Write requirements-service.txt, with the hashes of what the service needs, after constraints.txt has changed.
	$(BIN)/python tools/lock.py

soak: $(INSTALLED) ## Kill, pause and deceive the service and damage its files, and prove what it promised, in up to two hours; QUICK=1 takes five minutes.
	$(TEST_ENV) $(BIN)/python -m benchmarks.soak $(if $(QUICK),--quick)

screenshots: $(INSTALLED) ## Walk through the dashboard in a real browser and draw the README's picture.
	$(TEST_ENV) KINBAND_SCREENSHOTS=out/screenshots $(BIN)/python -m pytest -q tests/e2e/test_dashboard_walk.py
	cp out/screenshots/dashboard.png docs/figures/dashboard.png

bench: $(INSTALLED) ## Measure speed as ratios, against the bare arithmetic and other ways; BENCH=exact for one part, service for the service.
	$(BIN)/python -m benchmarks.speed $(BENCH)

claims: $(INSTALLED) ## Measure every claim about learning and plans, in an hour and a half; CLAIMS=--quick takes five minutes, --peers adds BoTorch and others.
	$(TEST_ENV) $(BIN)/python -m benchmarks.claims $(CLAIMS)
	$(TEST_ENV) $(BIN)/python -m benchmarks.evening $(filter --quick,$(CLAIMS))

trust: $(INSTALLED) ## Measure every promise of learning that an operator can trust, in hours; TRUST=--quick takes two minutes.
	$(TEST_ENV) $(BIN)/python -m benchmarks.trust $(TRUST)

lint: $(INSTALLED) ## Check format, style, types and the direction of imports.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED) ## Rewrite the sources in the house format.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove everything the other targets made.
	rm -rf $(VENV) out dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kinband needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(VENV)/.sbom: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[sbom]'
	@touch $@

$(VENV)/.docs: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@
