# The course in two commands: `make lab` to follow it, `make test` to prove it.
# `make` alone lists the rest. Works on Linux, macOS and Windows.

ifeq ($(OS),Windows_NT)
PYTHON ?= python
PY = ".venv/Scripts/python"
else
PYTHON ?= python3
PY = ".venv/bin/python"
endif
OLDEST = $(subst .venv/,.venv-oldest/,$(PY))
PIP = $(PY) -m pip install --disable-pip-version-check -c constraints.txt
COVERAGE = --cov=helpers --cov-report=term:skip-covered --cov-fail-under=90
MARK = $(PY) -c "import sys; [open(path, 'w').close() for path in sys.argv[1:]]"

help:
	$(info make lab        opens lesson 1 in JupyterLab; the first time it installs the course)
	$(info make test       runs everything: lint, unit tests, every notebook, JupyterLab)
	$(info make test-oldest  runs the tests beside transformers 4.57, in .venv-oldest)
	$(info make notebooks  makes the notebooks from lessons/, where a lesson changed)
	$(info make outputs    executes every solved notebook again)
	$(info make lint       checks code, prose and cells)
	$(info make readme     measures the lessons for README.md, and takes its picture)
	$(info make bench      measures everything that was promised; about 15 minutes)
	$(info make lock       writes constraints.txt from pyproject.toml (needs uv))
	@cd .

lab: .venv/.lab
	$(PY) lab.py $(ARGS)

test: lint
	$(PY) -m authoring.build --check
	$(PY) -m pytest -n auto --maxprocesses 4 --dist loadfile $(COVERAGE)
	$(PY) -m authoring.run_notebooks

# The same tests beside transformers 4.57, the oldest that the course admits.
test-oldest: .venv-oldest/.dev
	$(OLDEST) -m pytest -n auto --maxprocesses 4 --dist loadfile -m "not browser"
	$(OLDEST) -m authoring.run_notebooks

.venv-oldest/.dev: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv .venv-oldest
	$(OLDEST) -m pip install --disable-pip-version-check -c constraints-oldest.txt -e ".[lab,dev]"
	$(OLDEST) -c "open('.venv-oldest/.dev', 'w').close()"

notebooks: .venv/.dev
	$(PY) -m authoring.build

outputs: .venv/.dev
	$(PY) -m authoring.build --outputs

lint: .venv/.dev
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m codespell_lib
	$(PY) -m authoring.lint

readme: .venv/.dev
	$(PY) -m authoring.measure
	$(PY) -m authoring.screenshot

bench: .venv/.dev
	$(PY) -m benchmarks $(ARGS)

# Keeps the pins that still fit; ARGS=--upgrade takes the newest of everything.
lock:
	uv pip compile --universal --python-version 3.10 --all-extras --no-header \
	--no-annotate --quiet $(ARGS) --output-file constraints.txt pyproject.toml
	echo "transformers<4.58" | uv pip compile --universal --python-version 3.10 \
	--all-extras --no-header --no-annotate --quiet $(ARGS) --constraints - \
	--output-file constraints-oldest.txt pyproject.toml

# The marks say what is installed: with them there, a second run installs nothing.
.venv/.lab: pyproject.toml constraints.txt | .venv/pyvenv.cfg
	$(PIP) -e ".[lab]"
	$(MARK) .venv/.lab

.venv/.dev: pyproject.toml constraints.txt | .venv/pyvenv.cfg
	$(PIP) -e ".[lab,dev]"
	$(MARK) .venv/.lab .venv/.dev

.venv/pyvenv.cfg:
	$(PYTHON) -c "import sys; sys.exit('The course needs Python 3.10 or newer, and $(PYTHON) is ' + sys.version if sys.version_info < (3, 10) else 0)"
	$(PYTHON) -m venv .venv

.DELETE_ON_ERROR:
.PHONY: help lab test notebooks outputs lint readme bench lock test-oldest
