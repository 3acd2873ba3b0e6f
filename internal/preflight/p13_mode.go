package preflight

import (
	"context"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/access/mode"
)

// checkAccessMode is P13: the settings select exactly one access mode (R34 to
// R36, R53).
func checkAccessMode(_ context.Context, in *CheckContext, out *Report) {
	out.inspect("the settings of the access mode")
	// Findings of the mode package become findings of P13, with their keys as
	// the subject.
	for _, finding := range in.modes {
		if slices.Equal(finding.Keys, []string{mode.KeyRuntimeName}) {
			continue // reported by P8
		}
		// Unused values are warnings; everything else prevents the
		// installation.
		severity := SeverityError
		if finding.Warning {
			severity = SeverityWarning
		}
		out.add(severity, strings.Join(finding.Keys, ", "), finding.Message, finding.Fix)
	}
	if in.Mode != mode.Unresolved {
		out.inspect("they give %s", in.Mode)
	}
}
