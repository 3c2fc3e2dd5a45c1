# The whole project in two commands: `make book` and `make test`.
#   make book CORES=2           how many notebooks may run at once (default: every core)
#   make book PROFILE=smoke     the small sizes of the tests; its pages are not for reading
PROFILE ?= book
CORES ?=
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)

BIN := .venv/bin
STAMP := .venv/.installed
export PYTHONNOUSERSITE = 1

.DEFAULT_GOAL := help
.PHONY: help book test lint bench clean

help:  ## show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

book: $(STAMP)  ## run the notebooks that are not up to date, build the book, print its path
	@$(BIN)/parity book --profile $(PROFILE) $(if $(CORES),--cores $(CORES))

test: $(STAMP)  ## run every test (builds the book in the smoke profile first if it is not up to date)
	@$(BIN)/python -m pytest -n $(or $(CORES),2) --dist loadfile

lint: $(STAMP)  ## check style, types, and that imports go down only
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(STAMP)  ## measure speed and memory against their targets
	@$(BIN)/python benchmarks/run.py

clean:  ## remove everything that was generated, the virtual environment included
	rm -rf build _build .venv

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed, and $(PYTHON) is %d.%d: say make PYTHON=python3.11" % sys.version_info[:2])'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo 'Python cannot make virtual environments here: install python3-venv' >&2; exit 1; }
	@echo 'installing the versions of constraints.txt into .venv; this takes a few minutes'
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[binder,book,test]'
	@touch $@
