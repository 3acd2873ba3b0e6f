package source

import (
	"context"
	"strings"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/tree"
)

// AdmitDependency checks a dependency against a project, as it checks a source. A
// Helm repository by the name of its Secret counts as its address.
func (s *Sources) AdmitDependency(limits *project.Project, wanted job.Dependency) (project.Admitted, error) {
	if wanted.Plugin != "" {
		return project.Admitted{}, refusal.New("plugin", refusal.Unsupported, "config management plugins run beside the agent only: compare the Application in the console, or commit what the plugin generates")
	}
	if wanted.File {
		return limits.AdmitFile(wanted.RepoURL)
	}
	if wanted.OID != "" {
		return limits.AdmitObject(wanted.RepoURL, wanted.Server, wanted.OID, wanted.Size)
	}
	if name, isName := strings.CutPrefix(wanted.RepoURL, "@"); isName {
		if wanted.RepoURL = s.options.Credentials.Named(name, limits.Name()); wanted.RepoURL == "" {
			return project.Admitted{}, refusal.New("repoURL", refusal.NotFound, "no Secret with type helm has the name %q: "+
				"write the address of the repository into Chart.yaml, or the field name into its Secret", name)
		}
	}
	return limits.Admit(wanted.Source())
}

// Dependencies returns the function that fetches what sources of a project need
// of elsewhere, within the rules and with the credentials of the project. maxAge
// is that of Resolve.
func (s *Sources) Dependencies(limits *project.Project, maxAge time.Duration) func(context.Context, job.Dependency) (tree.Store, error) {
	return func(ctx context.Context, wanted job.Dependency) (tree.Store, error) {
		admitted, err := s.AdmitDependency(limits, wanted)
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
