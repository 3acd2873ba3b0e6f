package archtest_test

import (
	"testing"

	"slipway.dev/slipway/internal/archtest"
	"slipway.dev/slipway/internal/must"
)

// Links between pages lead to files and headings that exist.
func TestLinks(t *testing.T) {
	report(t, must.Get(archtest.CheckLinks(archtest.HouseRules(), root))(t))
}

func TestLinksFixture(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"README.md": "# A\n\n[b](docs/b.md), [c](docs/c.md), [d](docs/b.md#set-up-1), [e](docs/b.md#set-up-2), [f](#a), [g](#b)\n" +
			"[h](https://example.com/x.md), [i](docs/b.md#slipways-own-x), [j](go.mod), [k](docs)\n\n```\n[l](gone.md)\n# B\n```\n",
		"docs/b.md":    "# B\n\n## Set up\n\n## Set up\n\n## Slipway's *own* `x`\n\n[up](../README.md), [up](README.md)\n",
		"docs/part.md": "[part](gone.md)\n",
		"go.mod":       "module x\n",
	} {
		write(t, dir, name, text)
	}
	findings := must.Get(archtest.CheckLinks(archtest.HouseRules(), dir))(t)
	expectMessages(t, findings, "links to #b, and README.md has no such heading", "links to docs/b.md#set-up-2", "links to docs/c.md, which does not exist",
		"links to README.md, which does not exist")
}
