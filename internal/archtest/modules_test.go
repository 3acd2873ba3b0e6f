package archtest_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/archtest"
	"slipway.dev/slipway/internal/must"
)

// The modules of the repository that make test compiles require the same versions, so
// that what they share is compiled once.
func TestVersions(t *testing.T) {
	report(t, must.Get(archtest.CheckVersions(deadline(t), root, filepath.Join(root, "devcluster")))(t))
	suite := must.Get(archtest.CheckVersions(deadline(t), root, filepath.Join(root, "test", "conformance", "gateway", "suite")))(t)
	report(t, slices.DeleteFunc(suite, func(f finding.Finding) bool {
		return strings.Contains(f.Message, "github.com/quic-go/quic-go ") // CoreDNS does not compile with later ones
	}))
}

func TestVersionsFixture(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a/go.mod", "module a.test/a\n\ngo 1.26\n\nrequire (\n\tx.test/x v1.0.0\n\ty.test/y v1.2.0\n\tz.test/z v0.0.0\n\tw.test/w v0.4.0\n)\n")
	write(t, dir, "b/go.mod", "module b.test/b\n\ngo 1.26\n\nrequire (\n\tx.test/x v1.1.0 // indirect\n\ty.test/y v1.2.0\n\tz.test/z v0.0.0\n\tw.test/w v0.0.0\n)\n\nreplace (\n\tz.test/z => z.test/z v0.3.0\n\tw.test/w => w.test/w v0.4.0\n)\n")
	findings := must.Get(archtest.CheckVersions(deadline(t), filepath.Join(dir, "a"), filepath.Join(dir, "b")))(t)
	expectMessages(t, findings, "requires w.test/w v0.0.0 => v0.4.0", "requires x.test/x v1.1.0", "requires z.test/z v0.0.0 => v0.3.0")
}

// The workspace that both modules are built in chooses the versions that they require.
func TestWorkspace(t *testing.T) {
	work := must.Get(filepath.Abs(filepath.Join(root, "build.work")))(t)
	report(t, must.Get(archtest.CheckWorkspace(deadline(t), work, []string{"./cmd/slipway", "./devcluster/cmd/slipway-devcluster"},
		[]string{root, filepath.Join(root, "devcluster")}))(t))
}

func TestWorkspaceFixture(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "build.work", "go 1.26\n\nuse (\n\t./a\n\t./b\n)\n")
	const replaced = "\nreplace x.test/x => ../x\n"
	write(t, dir, "a/go.mod", "module a.test/a\n\ngo 1.26\n\nrequire x.test/x v1.0.0\n"+replaced)
	write(t, dir, "b/go.mod", "module b.test/b\n\ngo 1.26\n\nrequire x.test/x v1.1.0\n"+replaced)
	write(t, dir, "x/go.mod", "module x.test/x\n\ngo 1.26\n")
	write(t, dir, "x/x.go", "package x\n")
	write(t, dir, "b/b.go", "package b\n\nimport _ \"x.test/x\"\n")
	findings := must.Get(archtest.CheckWorkspace(deadline(t), filepath.Join(dir, "build.work"), []string{"./b"},
		[]string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}))(t)
	expectMessages(t, findings, "requires x.test/x v1.0.0, and build.work chooses v1.1.0")
}

// Every direct dependency has a reason in docs/architecture.md.
func TestDependencies(t *testing.T) {
	modules := []string{root, filepath.Join(root, "devcluster"), filepath.Join(root, "test", "conformance", "gateway", "suite")}
	report(t, must.Get(archtest.CheckDependencies(deadline(t), filepath.Join(root, "docs", "architecture.md"), modules...))(t))
}

func TestDependenciesFixture(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module a.test/a\n\ngo 1.26\n\nrequire (\n\tx.test/x v1.0.0\n\ty.test/y v1.2.0\n\tz.test/z v0.1.0 // indirect\n)\n")
	write(t, dir, "page.md", "# Map\n\n## Chosen parts\n\n| for | module | why |\n|---|---|---|\n| x | `x.test/x` | fast |\n| old | `old.test/old/v2` | slow |\n\n## Next\n\n`n.test/n`\n")
	findings := must.Get(archtest.CheckDependencies(deadline(t), filepath.Join(dir, "page.md"), dir))(t)
	expectMessages(t, findings, "requires y.test/y", "names old.test/old/v2")
}
