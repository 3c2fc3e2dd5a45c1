# The whole project in two commands: `make book` and `make test`.
#   make book CORES=2           how many notebooks may run at once (default: every core)
#   make book PROFILE=smoke     the small sizes of the tests; its pages are not for reading
#   make book TORCH_INDEX=URL   torch from this index alone, such as that of the CPU builds; the rest as ever
PROFILE ?= book
CORES ?=
TORCH_INDEX ?=
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)

BIN := .venv/bin
# Of what is to be installed, by content: time stamps say nothing after a checkout.
STAMP := .venv/.installed-$(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
export PYTHONNOUSERSITE = 1
# Some containers forbid it to keep compiled modules: every kernel would compile the library anew.
unexport PYTHONDONTWRITEBYTECODE
# The versions of what is installed, and of what builds it.
export PIP_CONSTRAINT = constraints.txt
export PIP_BUILD_CONSTRAINT = constraints.txt

.DEFAULT_GOAL := help
.PHONY: help book pdf test lint bench clean sound

help:  ## show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

book: sound  ## run the notebooks that are not up to date, build the book, print its path
	@$(BIN)/parity book --profile $(PROFILE) $(if $(CORES),--cores $(CORES))

pdf: book  ## print the whole book into one PDF (needs Chromium), print its path
	@$(BIN)/parity pdf --profile $(PROFILE)

test: sound  ## run every test (builds the book in the smoke profile first if it is not up to date)
	@$(BIN)/python -m pytest -n $(or $(CORES),3)

lint: sound  ## check style, types, and that imports go down only
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: sound  ## measure speed and memory against their targets
	@$(BIN)/python benchmarks/run.py

clean:  ## remove everything that was generated, the virtual environment included
	rm -rf build _build .venv parity_lib.egg-info

sound: $(STAMP)
	@test -x $(BIN)/parity && $(BIN)/python -c 'import click, parity_lib' 2>/dev/null || { echo '.venv is damaged: say make clean, then the same again' >&2; exit 1; }

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed, and $(PYTHON) is %d.%d: say make PYTHON=python3.11" % sys.version_info[:2])'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo 'Python cannot make virtual environments here: install python3-venv' >&2; exit 1; }
	@echo 'installing the versions of constraints.txt into .venv; this takes a few minutes'
	@$(PYTHON) -m venv --clear .venv
	@$(if $(TORCH_INDEX),$(PIP) --no-deps --index-url '$(TORCH_INDEX)' torch)
	@$(PIP) -e '.[binder,book,cluster,test]'
	@mkdir -p .venv/etc/jupyter && cp jupyter_lab_config.py .venv/etc/jupyter/
	@touch $@
