# The commands a developer types. CMake does the work; see CMakePresets.json for the build kinds.

JOBS    ?= 2
SECONDS ?= 60

# Other versions of clang-format break lines otherwise; CI has 19.
CLANG_FORMAT := $(firstword $(shell command -v clang-format-19 clang-format) clang-format-19)
# Sources under version control, and new ones that git does not ignore.
SOURCES = $(shell git ls-files --cached --others --exclude-standard '*.h' '*.cpp' | sort -u)

.DEFAULT_GOAL := help
# Set-up comes before what it sets up; the jobs of a build are CMake's to run.
.NOTPARALLEL:
.PHONY: help setup build demo test format format-check check-includes tidy fuzz asan tsan bench build-time clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install what the build needs: Debian packages, libtorch, MiniLM's weights
	@tools/setup.sh

build/build.ninja:
	@cmake --preset release

build: | build/build.ninja ## Build everything into build/
	@cmake --build build -j $(JOBS)

demo: setup | build/build.ninja ## Set up, build what it needs, and show Graft on a real model
	@cmake --build build -j $(JOBS) --target graft_cli
	@build/graft demo --json build/demo.json --html build/demo.html

test: setup build ## Set up, build, and run the tests
	@ctest --test-dir build --output-on-failure -j $(JOBS)

asan: ## Build with the address and undefined-behaviour sanitizers, and run the tests
tsan: ## Build with the thread sanitizer, and run the tests
asan tsan: setup
	@[ -f build-$@/build.ninja ] || cmake --preset $@
	@cmake --build build-$@ -j $(JOBS)
	@ctest --preset $@ -j $(JOBS)

fuzz: build ## Run random programs against eager for SECONDS=60
	@build/graft_fuzz --seconds $(SECONDS)

bench: build ## Run the benchmarks of Graft's own parts
	@for program in build/bench/*; do [ ! -x "$$program" ] || "$$program" || exit 1; done

format: ## Format the sources
	@$(CLANG_FORMAT) -i $(SOURCES)

format-check: ## Say which sources are not formatted
	@$(CLANG_FORMAT) --dry-run -Werror $(SOURCES)

check-includes: ## Check that includes point down the flow, and files are short
	@tools/check_includes.py

tidy: ## Run clang-tidy over the library, the laboratory and the command
	@tools/tidy.py

build-time: ## Say what the last build's jobs took: the demo's, each target's, everything's
	@tools/build_time.py build

clean: ## Remove the build folders
	rm -rf build build-dev build-asan build-tsan
