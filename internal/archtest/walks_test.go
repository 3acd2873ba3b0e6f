package archtest_test

import (
	"testing"

	"slipway.dev/slipway/internal/archtest"
	"slipway.dev/slipway/internal/must"
)

// The walks of the map name files that exist, each once.
func TestWalks(t *testing.T) {
	report(t, must.Get(archtest.CheckWalks(root))(t))
}

func TestWalksFixture(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "internal/a/one.go", "package a\n")
	write(t, dir, "internal/two.go", "package internal\n")
	write(t, dir, "docs/architecture.md", "# Map\n\n## The life of a thing\n\nPaths are below `internal/a`.\n\n1. `one.go`, `gone.go`, `internal/two.go`\n2. `one.go`\n\n"+
		"## Another\n\n`none.go`\n\n## The life of a second one\n\n`one.go`\n")
	expectMessages(t, must.Get(archtest.CheckWalks(dir))(t), "names internal/a/gone.go, which does not exist", "names internal/a/one.go twice",
		"The life of a second one does not name the folder")
}
