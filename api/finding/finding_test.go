package finding_test

import (
	"testing"

	"slipway.dev/slipway/api/finding"
)

func TestString(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]finding.Finding{
		"m":       {Message: "m"},
		"s: m":    {Subject: "s", Message: "m"},
		"m: f":    {Message: "m", Fix: "f"},
		"s: m: f": {Code: "C", Severity: finding.Error, Subject: "s", Message: "m", Fix: "f"},
	} {
		if got := f.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestHasErrors(t *testing.T) {
	t.Parallel()
	fine := []finding.Finding{{Severity: finding.Warning}, {Severity: finding.Info}}
	if finding.HasErrors(fine) || !finding.HasErrors(append(fine, finding.Finding{Severity: finding.Error})) {
		t.Error("only errors are errors")
	}
}
