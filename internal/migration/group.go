package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/gitops/migrate"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// Group is Applications that are taken over, or returned, together.
type Group struct {
	Cluster *kube.Cluster
	// ControlNamespace is that of the runtime.
	ControlNamespace string
	// Apps are Argo CD's.
	Apps []tracking.App
	// Force and Wait are those of each move.
	Force bool
	Wait  time.Duration
	// Report gets every write; it may be nil.
	Report func(migrate.Write)
}

// options returns the options of one move.
func (g *Group) options(from tracking.App) migrate.Options {
	return migrate.Options{
		Cluster: g.Cluster, From: from, To: tracking.App{Namespace: g.ControlNamespace, Name: from.Name},
		ControlNamespace: g.ControlNamespace, Force: g.Force, Wait: g.Wait, Report: g.Report,
	}
}

// Plan checks all moves of the group and reports their writes, without making
// them. The error has the obstacles of all Applications.
func (g *Group) Plan(ctx context.Context) error {
	var problems []error
	seen := map[string]tracking.App{}
	for _, app := range g.Apps {
		// Names are unique in the runtime's namespace.
		if other, taken := seen[app.Name]; taken {
			problems = append(problems, fmt.Errorf("the Applications %s and %s have the same name in the runtime: move one with slipway app migrate %s --name %s-2", other, app, app, app.Name))
		}
		seen[app.Name] = app
		options := g.options(app)
		options.DryRun = true
		_, err := migrate.Run(ctx, options)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// TakeOver moves the Applications, one after the other. It makes no write if one
// of them has an obstacle. The first that fails stops the group, whose others
// stay where they are: the error has the way back.
func (g *Group) TakeOver(ctx context.Context) ([]migrate.Report, error) {
	silent := *g
	silent.Report = nil
	if err := silent.Plan(ctx); err != nil {
		return nil, err
	}
	var moved []migrate.Report
	for _, app := range g.Apps {
		report, err := migrate.Run(ctx, g.options(app))
		if err != nil {
			return moved, fmt.Errorf("%d of %d Applications of the group were taken over; return them with slipway migrate argocd %s --back, or correct this and start again: %w",
				len(moved), len(g.Apps), g.names(), err)
		}
		moved = append(moved, report)
	}
	return moved, nil
}

// GiveBack returns the Applications to Argo CD, the last one first. One that
// fails does not keep the others.
func (g *Group) GiveBack(ctx context.Context) ([]migrate.Report, error) {
	var returned []migrate.Report
	var problems []error
	for _, app := range slices.Backward(g.Apps) {
		report, err := migrate.Back(ctx, g.options(app))
		if err != nil {
			problems = append(problems, err)
			continue
		}
		returned = append(returned, report)
	}
	return returned, errors.Join(problems...)
}

// names lists the Applications for a command.
func (g *Group) names() string {
	var names []string
	for _, app := range g.Apps {
		names = append(names, app.String())
	}
	return strings.Join(names, " ")
}
