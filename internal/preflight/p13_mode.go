package preflight

import (
	"context"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/access/mode"
)

// checkAccessMode is P13: the settings give one access mode (R34 to R36, R53).
func checkAccessMode(_ context.Context, in *Inquiry, out *Report) {
	out.look("the settings of the access mode")
	for _, finding := range in.modes {
		if slices.Equal(finding.Keys, []string{mode.KeyRuntimeName}) {
			continue // P8 tells it
		}
		severity := SeverityError
		if finding.Warning {
			severity = SeverityWarning
		}
		out.add(severity, strings.Join(finding.Keys, ", "), finding.Message, finding.Fix)
	}
	if in.Mode != mode.Unresolved {
		out.look("they give %s", in.Mode)
	}
}
