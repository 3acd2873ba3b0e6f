package preflight

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// maxLabel is the longest DNS label (RFC 1035).
const maxLabel = 63

// checkRuntimeName is P8: the name is valid, fits the label of the tunnel
// host, and is not used in the account (R33, R43). After the installation
// this runtime itself has the name, so that part is skipped.
func checkRuntimeName(ctx context.Context, in *CheckContext, out *Report) {
	name := in.Settings.Runtime
	out.inspect("the name %q", name)
	if err := wire.RuntimeName(name); err != nil {
		out.fail(mode.KeyRuntimeName, err.Error(), "choose another name")
		return
	}
	if label := wire.TunnelLabel(in.Settings.AccountID, name); in.Settings.AccountID != "" && len(label) > maxLabel {
		out.fail(mode.KeyRuntimeName, fmt.Sprintf("the label %s of the tunnel's host has %d characters, and DNS allows %d", label, len(label), maxLabel), "choose a shorter name")
		return
	}
	// Without a platform only the syntax can be checked.
	if in.Platform == nil || in.Stage != Before {
		return
	}
	out.inspect("the names of the account at %s", in.Platform.URL)
	response, err := in.Platform.Runtimes.CheckName(ctx, connect.NewRequest(&platformv1.CheckNameRequest{Name: name}))
	if err != nil {
		out.platformFailed(err)
		return
	}
	// The platform's reason and proposal are shown unchanged.
	if !response.Msg.GetFree() {
		fix := "choose another name"
		if proposal := response.Msg.GetProposal(); proposal != "" {
			fix = "use " + proposal + ", which is free"
		}
		out.fail(mode.KeyRuntimeName, response.Msg.GetReason(), fix)
	}
}
