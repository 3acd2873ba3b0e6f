package appcmd

import (
	"context"
	"fmt"
	"strings"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/progressive"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// releaseLine formats a release that runs or was rolled back.
func releaseLine(state *progressive.State) string {
	words := []string{strings.ToLower(string(state.Kind)) + "/" + state.Name + " is " + state.Phase}
	if state.Steps > 0 {
		words = append(words, fmt.Sprintf("step %d/%d", state.Step, state.Steps))
	}
	if state.Weight != nil {
		words = append(words, fmt.Sprintf("weight %d", *state.Weight))
	}
	return printer.WithMessage(strings.Join(words, ", "), state.Message)
}

// releases implements appBackend with lists of the namespaces in which the
// Application has workloads.
func (c *appCluster) releases(ctx context.Context, app *application) ([]string, error) {
	reader := &progressive.Reader{Cluster: c.Cluster}
	workloads, namespaces := progressive.Candidates(app.Status.Resources)
	var lines []string
	for _, namespace := range namespaces {
		states, err := reader.List(ctx, namespace)
		if err != nil {
			return lines, err
		}
		for _, state := range states {
			if _, succeeded := state.Done(); succeeded || !workloads[state.ID] {
				continue
			}
			lines = append(lines, releaseLine(state))
		}
	}
	return lines, nil
}

// releases implements appBackend.
func (r *remoteApps) releases(ctx context.Context, app *application) ([]string, error) {
	response, err := r.releasing.ListReleases(ctx, connect.NewRequest(&runtimev1.ListReleasesRequest{Ref: remoteRef(app.ID())}))
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, one := range response.Msg.GetReleases() {
		// One without actions has succeeded.
		if len(one.GetActions()) > 0 {
			lines = append(lines, releaseLine(&progressive.State{
				ID:    progressive.ID{Kind: progressive.Kind(one.GetObject().GetKind()), Name: one.GetObject().GetName()},
				Phase: one.GetPhase(), Message: one.GetMessage(), Step: one.GetStep(), Steps: one.GetSteps(), Weight: one.Weight,
			}))
		}
	}
	return lines, nil
}
