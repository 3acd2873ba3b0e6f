package preflight

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// mostLabel is the longest label of DNS.
const mostLabel = 63

// checkRuntimeName is P8: the name by its rule, the label of the tunnel's host, and
// whether the account has another runtime of the name (R33, R43). After the install
// the name is taken, by this runtime.
func checkRuntimeName(ctx context.Context, in *Inquiry, out *Report) {
	name := in.Settings.Runtime
	out.look("the name %q", name)
	if err := wire.RuntimeName(name); err != nil {
		out.fail(mode.KeyRuntimeName, err.Error(), "choose another name")
		return
	}
	if label := wire.TunnelLabel(in.Settings.AccountID, name); in.Settings.AccountID != "" && len(label) > mostLabel {
		out.fail(mode.KeyRuntimeName, fmt.Sprintf("the label %s of the tunnel's host has %d characters, and DNS allows %d", label, len(label), mostLabel), "choose a shorter name")
		return
	}
	if in.Platform == nil || in.Stage != Before {
		return
	}
	out.look("the names of the account at %s", in.Platform.URL)
	answer, err := in.Platform.Runtimes.CheckName(ctx, connect.NewRequest(&platformv1.CheckNameRequest{Name: name}))
	if err != nil {
		out.platformFailed(err)
		return
	}
	if !answer.Msg.GetFree() {
		fix := "choose another name"
		if proposal := answer.Msg.GetProposal(); proposal != "" {
			fix = "use " + proposal + ", which is free"
		}
		out.fail(mode.KeyRuntimeName, answer.Msg.GetReason(), fix)
	}
}
