# The whole project in two commands: `make book` and `make test`.
#   make book PROFILE=paper     the reference run instead of the quick one
#   make book CORES=2           how many notebooks may run at once (default: every core)
PROFILE ?= quick
CORES ?=
PYTHON ?= $(shell command -v python3.11 || command -v python3)

BIN := .venv/bin
STAMP := .venv/.installed
export PYTHONNOUSERSITE = 1

.DEFAULT_GOAL := help
.PHONY: help book test lint bench clean

help:  ## show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

book: $(STAMP)  ## run the notebooks that are not up to date, build the book, print its path
	@$(BIN)/parity book --profile $(PROFILE) $(if $(CORES),--cores $(CORES))

test: $(STAMP)  ## run every test (builds the quick book first if it is not up to date)
	@$(BIN)/python -m pytest

lint: $(STAMP)  ## check style, types, and that imports go down only
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(STAMP)  ## measure speed and memory against their targets
	@$(BIN)/python benchmarks/run.py

clean:  ## remove everything that was generated, the virtual environment included
	rm -rf build _build .venv

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[binder,book,test]'
	@touch $@
