package preflight

import (
	"context"

	"slipway.dev/slipway/internal/access/mode"
)

// checkAccessMode is P13: the settings select exactly one access mode (R34 to
// R36, R53).
func checkAccessMode(_ context.Context, in *CheckContext, out *Report) {
	out.inspect("the settings of the access mode")
	for _, found := range in.modes {
		if found.Subject == mode.KeyRuntimeName { // P8 reports that one
			continue
		}
		if in.ByFlags {
			found = mode.ByFlags(found)
		}
		out.add(found)
	}
	if in.Mode != mode.Unresolved {
		out.inspect("they give %s", in.Mode)
	}
}
