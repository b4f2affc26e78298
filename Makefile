# Everything from a clean clone: `make demo`, `make test`, `make docs`. Needs Python 3.11 or later and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS := $(VENV)/.docs
# Two workers suit two cores; each keeps torch to one thread.
WORKERS ?= 2
# Tests start processes, each of which would compile the package again without its bytecode.
TEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

.PHONY: demo test test-all docs check lint types format install clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	-$(BIN)/esan compile
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(STAMP)
	$(TEST)

test-all: $(STAMP)
	ESAN_EXAMPLES=20 $(TEST) -m "exhaustive or not exhaustive"

# The site in site/: tutorials are run, links are checked, and every Python block of every page runs.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	$(TEST) -m "exhaustive or not exhaustive" tests/test_docs.py

$(DOCS): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	touch $(DOCS)

check: lint types test

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist site .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
