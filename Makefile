# Thin verbs over the tools. Each verb does the set-up it needs: a virtual environment in VENV with an
# editable install, refreshed when the build inputs change.
#
#   make run     M=64 N=32 m=16 n=16 s=4 make run: transpose one matrix with the NPU design
#   make xclbin  compile the same design for an NPU (takes mlir-aie, Peano and XRT)
#   make bench   every row of the table against the peers installed (BENCH=--quick for a first look)
#   make test    everything; make sanitize and make fuzz distrust the C++ core further
PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
SPACE := $(subst x,,x x)
FUZZ_SECONDS ?= 60
CORE := $(shell find cpu_core -type f \( -name '*.hpp' -o -name '*.h' -o -name '*.cpp' -o -name '*.txt' -o -name '*.in' \) -not -path '*/tests/*' -not -path '*/bench/*')

.PHONY: run test bench lint sanitize fuzz xclbin clean
.DEFAULT_GOAL := test

# The design's parameters are m and n as well as M and N: make's variables are case-sensitive, and all
# of them reach the program through the environment.
export M N m n s dtype device kernel

run: $(VENV)/.run
	@$(PY) -m aie_design run

xclbin: $(VENV)/.run
	@$(PY) -m aie_design xclbin

test: $(VENV)/.test
	$(PY) -m pytest -q
	$(MAKE) --no-print-directory lint

bench: $(VENV)/.run
	$(PY) -m hptp.bench --cases tests/data/cases.json $(BENCH)

# TESTS narrows it: make sanitize TESTS='test_trust test_c_api'. The 32-bit build belongs here because
# it, too, is the same tests on another machine model.
sanitize: $(VENV)/.test
	@cd cpu_core && export PATH="$(abspath $(VENV))/bin:$$PATH" && for preset in asan tsan m32; do \
	  if [ $$preset = m32 ] && ! echo '#include <vector>' | $(CXX) -m32 -x c++ -fsyntax-only - 2>/dev/null; then \
	    echo "m32 skipped: $(CXX) -m32 finds no 32-bit C++ library"; continue; \
	  fi; \
	  cmake --preset $$preset && cmake --build --preset $$preset $(if $(TESTS),--target $(TESTS)) && \
	  ctest --preset $$preset $(if $(TESTS),-R '^($(subst $(SPACE),|,$(TESTS)))$$') || exit 1; \
	done

fuzz: $(VENV)/.test
	cd cpu_core && export PATH="$(abspath $(VENV))/bin:$$PATH" && \
	  cmake --preset fuzz && cmake --build --preset fuzz
	build/core-fuzz/fuzz/fuzz_c_api -max_total_time=$$(($(FUZZ_SECONDS) / 2))
	build/core-fuzz/fuzz/fuzz_convert -max_total_time=$$(($(FUZZ_SECONDS) / 2))

lint: $(VENV)/.test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	git ls-files '*.c' '*.h' '*.cc' '*.cpp' '*.hpp' | xargs $(VENV)/bin/clang-format --dry-run -Werror

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python pyproject.toml $(CORE)
	@echo 'installing hptp into $(VENV): the C++ core is compiled, which takes a minute'
	$(PY) -m pip install -q -e '.[numpy]'
	@touch $@

$(VENV)/.test: $(VENV)/.run
	$(PY) -m pip install -q -e '.[test,lint]'
	@touch $@

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
