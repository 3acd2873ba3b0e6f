package archtest_test

import (
	"path/filepath"
	"testing"

	"slipway.dev/slipway/internal/archtest"
	"slipway.dev/slipway/internal/must"
)

// The map names every package, and only folders that exist.
func TestRooms(t *testing.T) {
	report(t, must.Get(archtest.CheckRooms(filepath.Join(root, "docs", "architecture.md"), root, archtest.HouseRules()))(t))
}

func TestRoomsFixture(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "page.md", "# Map\n\n## The rooms\n\n```\na    the first\n  more about a\nb/   the second\ngone was here\n```\n\n```\nc\n```\n")
	for _, file := range []string{"a/a.go", "b/b_test.go", "c/c.go", "bin/d.go", "e/testdata/e.go"} {
		write(t, dir, file, "package x\n")
	}
	findings := must.Get(archtest.CheckRooms(filepath.Join(dir, "page.md"), dir, archtest.HouseRules()))(t)
	expectMessages(t, findings, "the map has gone", "is a package and not on the map")
	if len(findings) == 2 && findings[1].Subject != "c" {
		t.Errorf("found %v, want the package c", findings[1])
	}
}

// A page without a map is an error, not a map without packages.
func TestRoomsWithoutMap(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"# Map\n", "# Map\n\n## The rooms\n\nnone\n"} {
		write(t, dir, "page.md", text)
		if findings, err := archtest.CheckRooms(filepath.Join(dir, "page.md"), dir, archtest.HouseRules()); err == nil {
			t.Errorf("%q: no error, findings %v", text, findings)
		}
	}
}
