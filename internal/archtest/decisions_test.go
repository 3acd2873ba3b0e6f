package archtest_test

import (
	"path/filepath"
	"testing"

	"slipway.dev/slipway/internal/archtest"
	"slipway.dev/slipway/internal/must"
)

// Every decision has a status and is named where it governs.
func TestDecisions(t *testing.T) {
	report(t, must.Get(archtest.CheckDecisions(filepath.Join(root, "docs", "decisions"), root, archtest.HouseRules()))(t))
}

func TestDecisionsFixture(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"docs/0001-named.md":    "# 0001: A\n\n2026-01-31. Status: accepted\n",
		"docs/0002-unnamed.md":  "# 0002: B\n\n2026-01-31. Status: accepted\n",
		"docs/0003-replaced.md": "# 0003: C\n\n2026-01-31. Status: replaced by 0001\n",
		"docs/0004-open.md":     "# 0004: D\n\n2026-01-31\n",
		"docs/0005-both.md":     "# 0005: E\n\n2026-01-31. Status: accepted\n",
		"docs/README.md":        "# Decisions\n",
		"a/a.go":                "// Package a follows decisions 0001 and\n// 0005.\npackage a\n\n// decision 0002\n",
	} {
		write(t, dir, name, text)
	}
	findings := must.Get(archtest.CheckDecisions(filepath.Join(dir, "docs"), dir, archtest.HouseRules()))(t)
	expectMessages(t, findings, "no package comment names decision 0002", "has no line such as")
}
