# Users need Go alone: go run ./cmd/reprise serve. Contributors need Node for the page, and what
# make setup installs. NESTED are modules of their own, whose dependencies the product must not
# have.

NESTED    := conformance web/gen
TESTED     = $(shell go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -v '/e2e')
FUZZTIME  ?= 2m
STATICCHECK = go tool -modfile=$(CURDIR)/.ci/tools/go.mod staticcheck

.PHONY: run test check unit explore conformance page e2e soak clients screenshots bench golden generate fuzz setup

run:
	go run ./cmd/reprise serve

# All that a change must pass, the quickest answers first. The last lines are the last runner's own.
test: setup check unit explore conformance page e2e

setup:
	.ci/setup

check:
	@files=$$(git ls-files -z '*.go' | xargs -0 gofmt -l); [ -z "$$files" ] || { echo "gofmt would change:"; echo "$$files"; exit 1; }
	go vet ./...
	$(STATICCHECK) ./...
	set -e; for m in $(NESTED); do go -C $$m vet ./...; done

unit:
	@echo "go test -race of every package but e2e"
	@go test -race -timeout 10m $(TESTED)

# Every schedule of the engine up to a bound, and planted defects that it must see: docs/proof.md.
explore:
	GOGC=1600 go -C internal/explore test -count=1 -timeout 20m -run 'TestExplore|TestMutants' -deviations 2 -mutants

conformance: setup conformance/node/node_modules/.package-lock.json
	go -C conformance test -timeout 10m ./...

# dist is committed: it must be what its sources give.
page: web/node_modules/.package-lock.json
	go -C web/gen run . -check
	npm --prefix web run typecheck
	npm --prefix web run test

e2e: setup e2e/browser/node_modules/.package-lock.json e2e/mcp/node_modules/.package-lock.json
	go test -count=1 -timeout 20m ./e2e/...

# The longer forms of what the tests do for a minute.
soak:
	go test -count=1 -v -timeout 20m ./e2e -run TestSoak -soak 10m
	GOGC=1600 go -C internal/explore test -count=1 -timeout 60m -run TestExplore -deviations 2 -for 10m

# Coding agents of other makers before every fault, through the gateway. Their packages are a gigabyte
# and their runs take ten minutes, so CI does without; docs/clients.md says what came of it.
clients: setup e2e/agents/node_modules/.package-lock.json
	go run ./e2e/agents

# Not ci: of opencode's packages for other systems the lock names none, and ci wants them all.
e2e/agents/node_modules/.package-lock.json: e2e/agents/package-lock.json
	npm --prefix e2e/agents install --no-save --no-audit --no-fund
	@touch $@

%/node_modules/.package-lock.json: %/package-lock.json
	npm --prefix $* ci --no-audit --no-fund
	@touch $@

# The pictures of docs/images, from the real binary.
screenshots: setup e2e/browser/node_modules/.package-lock.json
	node e2e/browser/screenshots.mjs

bench:
	@go test -run '^$$' -bench . -benchmem $(TESTED)
	@go test -run '^$$' -bench Nodes -benchtime 3x ./e2e
	go run ./bench

# Rewrites what tests compare with. The diff is the review.
golden:
	go test $$(grep -rl --include='*_test.go' --exclude-dir=node_modules -e '"update", false' -e reprise/wire/internal/wiretest . | xargs -n1 dirname | sort -u) -update

generate: web/node_modules/.package-lock.json
	go generate ./...

# Each parser's fuzzer in turn, for FUZZTIME. On a busy machine go test takes the end of that time
# for a failure (golang.org/issue/75804); a real one left its input, which fails again.
fuzz:
	set -e; for p in $$(grep -rl --include='*_test.go' --exclude-dir=node_modules --exclude-dir=conformance '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		names=$$(go test -list '^Fuzz' $$p); \
		for f in $$(echo "$$names" | grep '^Fuzz'); do \
			go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || go test -run "^$$f$$" $$p; \
		done; \
	done
