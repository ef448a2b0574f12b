# make run     install what is missing, build what is quickly built, serve the demo site
# make test    install what is missing, run every check and test
# make help    the other targets

PREFIX ?= /usr/local
DESTDIR ?=
LISTEN ?= 127.0.0.1:8080
SITE ?= examples/demo
TARGET := $(or $(CARGO_TARGET_DIR),target)

# rustup puts cargo here; a shell that was open during its installation does not know yet.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

.PHONY: help run test sanitize bench bench-quick build packages image repository doc install
.PHONY: uninstall clean
.DEFAULT_GOAL := help

help:
	@echo 'make run               set up, build, serve $(SITE) on http://$(LISTEN)/'
	@echo '                       LISTEN=address:port and SITE=folder choose others'
	@echo 'make test              set up, run every check and test'
	@echo 'make sanitize          the part of it under AddressSanitizer, UndefinedBehaviorSanitizer and valgrind'
	@echo 'make bench-quick       set up, measure for five minutes, make report.html'
	@echo 'make bench             the same with all that is below bench/: four hours'
	@echo 'make build             build the programs with optimisation'
	@echo 'make packages          Debian packages, into target/packages'
	@echo '                       RELEASE=trixie makes them for another release of Debian'
	@echo 'make image             a container image of them, into target/packages/image'
	@echo 'make repository        a signed repository of them for apt, into target/repository'
	@echo '                       KEY=ID is the key of gpg that signs'
	@echo 'make doc               the documentation of the code, as HTML'
	@echo 'make install           install below PREFIX ($(PREFIX)); make uninstall takes it away'
	@echo 'make clean             remove everything that was built'

run:
	@scripts/setup run
	cargo build --profile quick --locked --no-default-features -p tokamak -p tokamak-php
	@exec "$(TARGET)/quick/tokamak" serve "$(SITE)" --listen "$(LISTEN)"

test:
	@scripts/setup test
	@scripts/test

sanitize:
	@scripts/setup test
	@scripts/test-sanitizers

bench:
	@scripts/setup bench
	@$(MAKE) --no-print-directory build
	@bench/all

bench-quick:
	@scripts/setup bench
	@$(MAKE) --no-print-directory build
	@bench/all --quick

build:
	cargo build --release --locked -p tokamak -p tokamak-php

packages:
	@scripts/packages

image:
	@scripts/image

repository:
	@scripts/repository

doc:
	cargo doc --locked --workspace --no-deps

install: build
	@scripts/install "$(TARGET)/release" "$(DESTDIR)" "$(PREFIX)"

uninstall:
	@scripts/install --remove "$(DESTDIR)" "$(PREFIX)"

clean:
	cargo clean
