# The two commands of the README: `make run` and `make test`. Everything is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.installed-docs
EXTRAS := mol,excel,graph,gen,baselines,sklearn,figures,export,hub,tune,track,dev

.PHONY: run test test-full coverage sanitize docs reference lint clean

run: $(STAMP)
	$(BIN)/python examples/quickstart.py

# Without lint: the first failing test should not wait for a type check. `make lint test` does both, as CI does.
test: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m "not slow"

# Nothing is skipped for want of a browser or of MkDocs: without them it fails. `EGT_REQUIRE= make test-full` skips.
test-full: export EGT_REQUIRE ?= browser,docs
test-full: $(DOCS_STAMP)
	$(BIN)/python -m pytest -n 2

# The share of lines that tests run, subprocesses included.
coverage: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m "not slow" --cov --cov-report=term:skip-covered --cov-report=xml

# The C++ code under the address and undefined-behavior sanitizers.
sanitize: $(STAMP)
	$(BIN)/python -m pytest tests/nn/kernels/test_sanitizers.py

# The site, in site/index.html, with its notebooks run; then the examples, links and generated pages are checked.
docs: $(DOCS_STAMP)
	$(BIN)/python -m mkdocs build --strict
	$(BIN)/python -m pytest tests/test_docs.py tests/test_site.py tests/test_project_files.py tests/test_architecture.py

# docs/options.md and docs/settings.md, from the docstrings.
reference: $(STAMP)
	$(BIN)/python docs/reference.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# torch first and pinned: a looser request may fetch several gigabytes of GPU packages.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[$(EXTRAS)]"
	touch $(STAMP)

# On its own: nobody needs a site builder to train or to test.
$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	touch $(DOCS_STAMP)

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache site
