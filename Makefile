# Panorama: `make demo` and `make test` are all a newcomer needs; both install first, into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
PYTEST_ARGS ?=

.PHONY: help install demo test test-oldest lint format wheel clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo     index the sample archive, register from pictures, ask the questions in queries/'
	@echo 'make test     run the tests, ruff and mypy among them; PYTEST_ARGS="-k store" picks some'
	@echo 'make test-oldest   run with the oldest packages that pyproject.toml allows; downloads them'
	@echo 'make lint     ruff and mypy'
	@echo 'make format   let ruff rewrite the code'
	@echo 'make wheel    build dist/*.whl'
	@echo 'make clean    remove what the above have made, $(VENV) included'
	@echo 'PYTHON=python3.12 make ... picks the interpreter; 3.11 or newer'

install: $(STAMP)

# Quiet: several hundred lines otherwise; errors are still shown. The stamp spares a second `make` the installation; a changed pyproject.toml brings it up to date.
$(STAMP): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: no interpreter '$(PYTHON)'; name one: PYTHON=/path/to/python3.11 make" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: Panorama needs Python 3.11 or newer, '$(PYTHON)' is $$($(PYTHON) -V 2>&1 | cut -d' ' -f2); name another: PYTHON=python3.11 make" >&2; exit 1; }
	@echo "installing into $(VENV); the first time this downloads PyTorch (minutes, several GB)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet --quiet --editable '.[dev]'
	@touch $@

demo: $(STAMP)
	@$(BIN)/panorama demo --sample data

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: $(STAMP)
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

test-oldest: $(STAMP)
	@$(BIN)/python tests/oldest.py

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: $(STAMP)
	$(BIN)/python -m hatchling build -t wheel

clean:
	rm -rf $(VENV) dist build data/archive data/album data/lookalikes data/truth.json data/rendered.json
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
