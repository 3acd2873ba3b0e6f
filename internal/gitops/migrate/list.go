package migrate

import (
	"context"
	"fmt"
	"slices"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// Candidate is an Application that Argo CD may have.
type Candidate struct {
	App tracking.App `json:"app"`
	// Sync and Health are those of its status.
	Sync   string `json:"sync"`
	Health string `json:"health"`
	// Held means that a move has started.
	Held bool `json:"held"`
	// Findings are the obstacles.
	Findings []finding.Finding `json:"findings"`
}

// List returns the Applications of a namespace, or of all but the runtime's,
// with the obstacles of moving each. Obstacles are not computed for an
// Application that is held: its move has passed the checks already.
func List(ctx context.Context, cluster *kube.Cluster, namespace, control string) ([]Candidate, error) {
	apps, err := (&inspect.Inspector{Cluster: cluster, Manager: manager}).List(ctx, namespace, "")
	if err != nil {
		return nil, err
	}
	apps = slices.DeleteFunc(apps, func(app *inspect.Application) bool { return app.Namespace == control })
	made := []Candidate{}
	for _, app := range apps {
		held := Held(app)
		candidate := Candidate{App: app.ID(), Sync: shownSync(app.Status.Sync.Status), Health: string(app.Status.Health.Status), Held: held, Findings: []finding.Finding{}}
		if !held {
			candidate.Findings = append(candidate.Findings, Check(app)...)
		}
		made = append(made, candidate)
	}
	return made, nil
}

// Held reports whether a move of the Application has started.
func Held(app *inspect.Application) bool {
	_, held := app.Annotations[annotationHeld]
	return held
}

// Moved is an Application that a move has taken, wholly or in part.
type Moved struct {
	// From is Argo CD's, and App the one that exists: the runtime's, or Argo
	// CD's where a move did not get further.
	From tracking.App
	App  *inspect.Application
}

// ListMoved returns the Applications that can be returned to Argo CD: those of
// the runtime that have their origin, and those that are held.
func ListMoved(ctx context.Context, cluster *kube.Cluster, control string) ([]Moved, error) {
	apps, err := (&inspect.Inspector{Cluster: cluster, Manager: manager}).List(ctx, "", "")
	if err != nil {
		return nil, err
	}
	var moved []Moved
	known := map[tracking.App]bool{}
	for _, app := range apps {
		if app.Namespace != control {
			continue
		}
		was, err := readOrigin(app.Annotations)
		if err != nil {
			return nil, fmt.Errorf("the Application %s: %w", app.ID(), err)
		}
		if was != nil {
			known[was.app()] = true
			moved = append(moved, Moved{From: was.app(), App: app})
		}
	}
	// A move may have stopped before it made ours.
	for _, app := range apps {
		if app.Namespace != control && Held(app) && !known[app.ID()] {
			moved = append(moved, Moved{From: app.ID(), App: app})
		}
	}
	return moved, nil
}
