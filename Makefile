# make demo   a real Hadoop cluster on this machine, and a training job on it
# make test   everything that is checked before a change lands
#
# Both set up all they need in .venv; a second run does not set up again.
# PYTHON=/path/to/python3.11 chooses the Python, pip's own settings choose the package index.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest

# On the cluster a full run has two workers, each with a cluster of its own. A third of what the other tests
# take is waiting: three workers share two cores. A run of chosen tests (ARGS) has none beside itself, so that
# nothing starts twice; a cluster that is up already is one only.
WORKERS ?= $(if $(ARGS)$(YARNAM_TEST_CLUSTER),0,2)
UNIT_WORKERS ?= $(if $(ARGS),0,3)
SPREAD := $(PYTEST) --dist worksteal

# Without bytecode pytest rewrites 500 files in each of its processes, and so does each command that a test
# starts: 25 s of a run, and more on the cluster.
unexport PYTHONDONTWRITEBYTECODE

# Not in `make test`: what needs hardware or services that a plain machine lacks, and the second
# tier that .ci/run adds (see CONTRIBUTING.md).
ELSEWHERE := long or chaos or setup or benchmark or gpu or secure or browser or frameworks
CLUSTER := yarn or hdfs or zookeeper

# hdfs_utils stands alone (an import contract): its tests run where it or they differ from SINCE, and in every
# run that does not say what it compares with.
SINCE ?=
UNTOUCHED := $(if $(SINCE),$(shell git diff --quiet $(SINCE) -- hdfs_utils tests/unit/hdfs_utils tests/fakes pyproject.toml \
	&& echo --ignore=tests/unit/hdfs_utils))

# What the goals have taken until now; CONTRIBUTING.md says how long that is, and the aims.
BEGAN := $(shell date +%s)
TOOK = @s=$$(($$(date +%s) - $(BEGAN))); echo "=== $@ has ended: $$((s / 60)) min $$((s % 60)) s after make began"

.PHONY: help demo demo-down test check .mypy .basedpyright unit near integration long frameworks shapes chaos setup-guard bench docs format clean

help:
	@sed -n 's/^# make/make/p' Makefile
	@echo "also:       make check unit near integration long frameworks shapes chaos setup-guard bench docs format demo-down clean"

demo: .set-up-demo
	@$(BIN)/python tools/demo.py

demo-down: .set-up-demo
	@$(BIN)/python tools/demo.py --down

test: check unit integration

check: .set-up-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory -j2 --output-sync .mypy .basedpyright
	@$(BIN)/python -m tools.budget
	$(TOOK)

.mypy .basedpyright: .%:
	$(BIN)/$*

unit: .set-up-test
	$(SPREAD) -n $(UNIT_WORKERS) -m "not ($(CLUSTER) or $(ELSEWHERE))" $(UNTOUCHED) $(ARGS)
	$(TOOK)

# The checks and tests of what the working tree changed, and of what imports it.
near: .set-up-test
	@$(BIN)/python -m tools.near $(ARGS)

# ONCE_MORE=yes: what failed on the cluster runs once more, on a new one. What passes then is reported
# as unsteady: a fault that comes now and then, of the test or of the product. It wants to be found.
integration: .set-up-test
	$(SPREAD) -n $(WORKERS) -m "($(CLUSTER)) and not ($(ELSEWHERE))" $(ARGS) $(if $(ONCE_MORE),|| $(AGAIN))
	$(TOOK)

AGAIN = { test $$? = 1 && echo "=== UNSTEADY or broken: the failed tests once more, on a new cluster" \
	&& $(PYTEST) -n 0 -m "($(CLUSTER)) and not ($(ELSEWHERE))" --last-failed --last-failed-no-failures none $(ARGS) \
	&& echo "=== UNSTEADY: they passed the second time; see the failures above"; }

chaos: .set-up-test
	$(PYTEST) -m "chaos" $(ARGS)

# The second tier's own: statistics that take minutes, and properties with thirteen times the examples.
long: .set-up-test
	$(PYTEST) -n 2 --dist worksteal -m "(long or secure) and not (benchmark or gpu)"
	YARNAM_EXAMPLES=4 $(PYTEST) -n 2 --dist worksteal -m "not long" tests/property

# The gallery of examples with real frameworks, which it installs: some 10 GB of disk. By hand only.
frameworks: .set-up-test
	$(PYTEST) -m frameworks

# On clusters of other shapes: the other scheduler, Kerberos, other versions of Hadoop.
SHAPES ?= --scheduler=capacity --secure --hadoop=3.1.4 --hadoop=3.2.4 --hadoop=3.3.6 --hadoop=3.5.0
shapes: .set-up-test
	@for shape in $(SHAPES); do \
		echo "=== yarnam cluster up $$shape"; \
		YARNAM_TEST_SHAPE="$$shape" $(PYTEST) -n 0 -m "shapes and not chaos" $(ARGS) || exit 1; \
		case "$$shape" in *--secure*) YARNAM_TEST_SHAPE="$$shape" \
			$(PYTEST) -n 0 -m "($(CLUSTER)) and not ($(ELSEWHERE))" tests/contract || exit 1;; esac; \
	done
	$(TOOK)

setup-guard: .set-up-test
	$(PYTEST) -m "setup" $(ARGS)

bench: .set-up-test
	$(PYTEST) -m "benchmark" -s $(ARGS)

docs: .set-up-test
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

format: .set-up-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		.import_linter_cache .set-up.lock
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: .set-up-demo .set-up-test
.set-up-demo:
	@$(PYTHON) tools/set_up.py demo
.set-up-test:
	@$(PYTHON) tools/set_up.py test
