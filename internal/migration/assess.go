package migration

import (
	"context"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/clusters"
	"slipway.dev/slipway/internal/gitops/argosetting"
	"slipway.dev/slipway/internal/gitops/customization"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/migrate"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// manager is the field manager of the dry runs.
const manager = "slipway-migrate"

// Options configures a report.
type Options struct {
	Cluster *kube.Cluster
	// Namespace is that of Argo CD, and ControlNamespace that of the runtime.
	Namespace, ControlNamespace string
	// Select chooses the Applications; nil chooses all. Objects that they share
	// with others are found all the same.
	Select func(*inspect.Application) bool
	// Renderer renders the sources of Applications and runs health rules.
	Renderer *render.Renderer
}

// assessment makes one report.
type assessment struct {
	Options
	report *Report

	// inspector and sources are shared by all Applications, so that repositories are
	// read once.
	inspector *inspect.Inspector
	sources   *source.Sources
	// local is the cluster of Argo CD, and others are those of its Secrets by address.
	local       *destination
	others      map[string]*destination
	connections *clusters.Connections
	// theirs and ours are the credentials of the two namespaces.
	theirs, ours *credential.Store
	settings     *customization.Settings
	tracker      tracking.Tracker
	// apps are the Applications outside of the runtime's namespace.
	apps []*unstructured.Unstructured
}

// warn adds a part that could not be read.
func (a *assessment) warn(text string) { a.report.Warnings = append(a.report.Warnings, text) }

// Assess reads an installation and makes the report. It writes nothing. What the
// user may not read is a warning; an error is for what makes the report
// worthless.
func Assess(ctx context.Context, options Options) (*Report, error) {
	a := &assessment{
		Options: options, report: &Report{Namespace: options.Namespace, Objects: []*Object{}},
		inspector: &inspect.Inspector{Cluster: options.Cluster, Manager: manager, Health: health.NewRules(options.Renderer)},
		tracker:   tracking.Tracker{ControlNamespace: options.Namespace}, others: map[string]*destination{},
	}
	a.local = a.newDestination(project.LocalServer, options.Cluster, live.NewKinds(options.Cluster))
	a.local.reached = true // its Applications are read first
	closeAll, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	if a.apps, err = a.list(ctx, v1alpha1.ApplicationResource()); err != nil {
		return nil, err
	}
	for _, part := range []func(context.Context) error{a.configMaps, a.secrets, a.projects, a.sets, a.applications} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(a.report.Objects, func(x, y *Object) int { return x.Object.Compare(y.Object) })
	return a.report, nil
}

// open prepares what proofs need. The returned function removes the fetched
// repositories.
func (a *assessment) open(ctx context.Context) (func(), error) {
	var err error
	if a.settings, err = a.inspector.ReadSettings(ctx, a.Namespace); err != nil {
		a.warn("Applications are compared without the settings of Argo CD: " + err.Error())
	}
	if a.settings != nil {
		a.inspector.Health.Set(a.settings.Health)
	}
	if a.theirs, err = a.inspector.Credentials(ctx, a.Namespace, a.warn); err != nil {
		return nil, err
	}
	if a.ours, err = a.inspector.Credentials(ctx, a.ControlNamespace, a.warn); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "slipway-migrate-")
	if err != nil {
		return nil, err
	}
	if a.sources, err = source.New(source.Options{Folder: folder, Credentials: a.theirs}); err != nil {
		_ = os.RemoveAll(folder)
		return nil, err
	}
	return func() {
		if a.connections != nil {
			a.connections.Close()
		}
		_ = a.sources.Close()
		_ = os.RemoveAll(folder)
	}, nil
}

// applications reports the Applications.
func (a *assessment) applications(ctx context.Context) error {
	var apps []*inspect.Application
	for _, one := range a.apps {
		app, err := inspect.Decode(one)
		if err != nil {
			object := newObject(v1alpha1.Group, v1alpha1.KindApplication, one.GetNamespace(), one.GetName())
			object.add("", argosetting.Refused, err.Error())
			a.report.Objects = append(a.report.Objects, object.finish())
			continue
		}
		a.addOwner(app)
		apps = append(apps, app)
	}
	for _, app := range apps {
		if a.Select != nil && !a.Select(app) {
			continue
		}
		object, err := a.application(ctx, app)
		if err != nil {
			return err
		}
		a.report.Objects = append(a.report.Objects, object)
	}
	return nil
}

// application reports one Application. One that is refused has no proof.
func (a *assessment) application(ctx context.Context, app *inspect.Application) (*Object, error) {
	object := newObject(v1alpha1.Group, v1alpha1.KindApplication, app.Namespace, app.Name)
	addDecoded(object, app.Object, app.Refused, app.Warnings)
	if !migrate.Held(app) {
		object.Obstacles = append(migrate.Check(app), a.missingCredentials(app)...)
	}
	// A refused field is reported as a field.
	object.Obstacles = slices.DeleteFunc(object.Obstacles, isReported)
	if len(app.Refused) == 0 {
		object.Proof = a.prove(ctx, app)
	}
	// What an interrupt cut short is no proof.
	return object.finish(), context.Cause(ctx)
}

// failure shortens an error for the report.
func failure(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
