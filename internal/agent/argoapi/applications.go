package argoapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"k8s.io/apimachinery/pkg/labels"

	"slipway.dev/slipway/internal/agent/appproxy"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/wire/argocd"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// refreshAnnotation is on an Application while a refresh is requested.
const refreshAnnotation = "argocd.argoproj.io/refresh"

// refreshTimeout bounds how long a request waits for a refresh. Without an agent
// that compares, the state before it is returned.
const refreshTimeout = 30 * time.Second

// refOf returns the Application that a request names.
func refOf(in argocd.Request) *runtimev1.ApplicationRef {
	namespace, name := in.Application()
	return &runtimev1.ApplicationRef{Namespace: namespace, Name: name}
}

// summary is what requests select Applications by.
type summary struct {
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Project string       `json:"project"`
		Source  *repository  `json:"source"`
		Sources []repository `json:"sources"`
	} `json:"spec"`
}

// repository is the address of a source.
type repository struct {
	RepoURL string `json:"repoURL"`
}

// filter selects Applications of a list or a watch.
type filter struct {
	name, namespace, repo string
	projects              []string
	selector              labels.Selector
}

// newFilter returns the filter of a request.
func newFilter(in argocd.Request) (filter, error) {
	selector, err := labels.Parse(in.Text("selector"))
	if err != nil {
		return filter{}, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the selector is none of Kubernetes: %w", err))
	}
	return filter{
		name: in.Text("name"), namespace: in.Text("appNamespace"), repo: in.Text("repo"),
		projects: projectsOf(in), selector: selector,
	}, nil
}

// projectsOf returns the projects that a request is limited to. The field has two
// names, and is a single text in some messages, which may be empty.
func projectsOf(in argocd.Request) []string {
	projects := in.Texts("projects")
	if field := in.Descriptor().Fields().ByName("project"); field != nil && field.IsList() {
		projects = append(projects, in.Texts("project")...)
	} else {
		projects = append(projects, in.Text("project"))
	}
	return slices.DeleteFunc(projects, func(name string) bool { return name == "" })
}

// takes reports whether an Application is selected.
func (f filter) takes(manifest []byte) bool {
	var app summary
	if json.Unmarshal(manifest, &app) != nil {
		return false
	}
	if f.name != "" && app.Metadata.Name != f.name || f.namespace != "" && app.Metadata.Namespace != f.namespace {
		return false
	}
	return app.inProjects(f.projects) && f.selector.Matches(labels.Set(app.Metadata.Labels)) && (f.repo == "" || app.uses(f.repo))
}

// inProjects reports whether an Application is of one of the projects; no
// projects are all.
func (a *summary) inProjects(projects []string) bool {
	project := a.Spec.Project
	if project == "" {
		project = "default"
	}
	return len(projects) == 0 || slices.Contains(projects, project)
}

// uses reports whether a source of an Application is in a repository.
func (a *summary) uses(repo string) bool {
	sources := a.Spec.Sources
	if a.Spec.Source != nil {
		sources = append(sources, *a.Spec.Source)
	}
	return slices.ContainsFunc(sources, func(one repository) bool { return sameRepository(one.RepoURL, repo) })
}

// sameRepository compares two addresses without users and endings, which differ
// between spellings of the same repository.
func sameRepository(a, b string) bool {
	plain := func(text string) string {
		return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(address.Redact(text)), "/"), ".git")
	}
	return plain(a) == plain(b)
}

// list returns the Applications that the user may get.
func (s *Service) list(ctx context.Context, in argocd.Request) (any, error) {
	selects, err := newFilter(in)
	if err != nil {
		return nil, err
	}
	found, err := s.Applications.ListApplications(ctx, connect.NewRequest(&runtimev1.ListApplicationsRequest{Selector: in.Text("selector")}))
	if err != nil {
		return nil, err
	}
	items := []json.RawMessage{}
	for _, app := range found.Msg.GetApplications() {
		if selects.takes(app.GetManifest()) {
			items = append(items, app.GetManifest())
		}
	}
	return map[string]any{"metadata": map[string]any{}, "items": items}, nil
}

// get returns an Application, after a refresh if the request wants one.
func (s *Service) get(ctx context.Context, in argocd.Request) (any, error) {
	ref := refOf(in)
	if kind := in.Text("refresh"); kind != "" {
		// A refresh may be followed by an automated sync, so that it needs that
		// right, also where Argo CD lets readers refresh.
		changing := appproxy.WithVerb(ctx, permission.Sync)
		if _, err := s.Applications.Refresh(changing, connect.NewRequest(&runtimev1.RefreshRequest{Ref: ref, Hard: kind == "hard"})); err != nil {
			return nil, err
		}
		if err := s.awaitRefresh(ctx, ref); err != nil {
			return nil, err
		}
	}
	return s.application(ctx, in)
}

// application returns the manifest of the Application that a request names. With
// a project in the request it must be of that one, as in Argo CD.
func (s *Service) application(ctx context.Context, in argocd.Request) (json.RawMessage, error) {
	found, err := s.Applications.GetApplication(ctx, connect.NewRequest(&runtimev1.GetApplicationRequest{Ref: refOf(in)}))
	if err != nil {
		return nil, err
	}
	manifest := found.Msg.GetApplication().GetManifest()
	var app summary
	if err := json.Unmarshal(manifest, &app); err != nil {
		return nil, err
	}
	if projects := projectsOf(in); !app.inProjects(projects) {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no Application %s in the project %s", app.Metadata.Name, strings.Join(projects, ", ")))
	}
	return manifest, nil
}

// awaitRefresh waits until the agent has removed the annotation of a refresh.
func (s *Service) awaitRefresh(ctx context.Context, ref *runtimev1.ApplicationRef) error {
	waiting, stop := context.WithTimeout(ctx, refreshTimeout)
	defer stop()
	err := s.Applications.StreamApplication(waiting, ref, func(state *runtimev1.WatchApplicationResponse) error {
		var app summary
		if state.GetDeleted() || json.Unmarshal(state.GetApplication().GetManifest(), &app) == nil && app.Metadata.Annotations[refreshAnnotation] == "" {
			stop()
		}
		return nil
	})
	if ctx.Err() == nil && waiting.Err() != nil {
		return nil
	}
	return err
}

// watch sends Applications as events: those that there are, and each change.
func (s *Service) watch(ctx context.Context, in argocd.Request, send func(any) error) error {
	selects, err := newFilter(in)
	if err != nil {
		return err
	}
	// shown has the Applications that the client knows, with their last state: an
	// event of one that is gone has it.
	shown := map[string]json.RawMessage{}
	return s.Applications.StreamApplications(ctx, func(state *runtimev1.WatchApplicationResponse) error {
		ref := state.GetApplication().GetRef()
		key := ref.GetNamespace() + "/" + ref.GetName()
		last, known := shown[key]
		kind, manifest := "ADDED", json.RawMessage(state.GetApplication().GetManifest())
		switch taken := !state.GetDeleted() && selects.takes(manifest); {
		case !taken && !known:
			return nil
		case !taken:
			delete(shown, key)
			return send(map[string]any{"type": "DELETED", "application": last})
		case known:
			kind = "MODIFIED"
		}
		shown[key] = manifest
		return send(map[string]any{"type": kind, "application": manifest})
	})
}
