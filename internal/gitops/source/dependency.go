package source

import (
	"context"
	"time"

	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/tree"
)

// Dependencies returns the function that fetches what sources of a project need
// of elsewhere, within the rules and with the credentials of the project. maxAge
// is that of Resolve.
func (s *Sources) Dependencies(limits *project.Project, maxAge time.Duration) func(context.Context, job.Dependency) (tree.Store, error) {
	return func(ctx context.Context, wanted job.Dependency) (tree.Store, error) {
		admitted, err := limits.Admit(wanted.Source())
		if err != nil {
			return nil, err
		}
		found, err := s.Resolve(ctx, admitted, maxAge)
		if err != nil {
			return nil, err
		}
		return found.Store, nil
	}
}
