package migrate

import (
	"context"
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
		_, held := app.Annotations[annotationHeld]
		candidate := Candidate{App: app.ID(), Sync: shownSync(app.Status.Sync.Status), Health: string(app.Status.Health.Status), Held: held, Findings: []finding.Finding{}}
		if !held {
			candidate.Findings = append(candidate.Findings, Check(app)...)
		}
		made = append(made, candidate)
	}
	return made, nil
}
