package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// manager is the field manager.
const manager = "slipway-migrate"

// defaultWait is how long the runtime has to compare the Application with Git.
const defaultWait = 2 * time.Minute

// Options configures a move.
type Options struct {
	Cluster *kube.Cluster
	// From is Argo CD's Application, and To the runtime's.
	From, To tracking.App
	// ControlNamespace is that of the runtime.
	ControlNamespace string
	// Force ignores that the Application is not synced, or that a parent
	// Application has it in Git.
	Force bool
	// DryRun reports every write and makes none.
	DryRun bool
	// Wait is how long the runtime has to compare; 0 is two minutes.
	Wait time.Duration
	// The callback gets every write, in their order; it may be nil.
	Report func(Write)

	// withSet means that the ApplicationSet that generates it is moved with it.
	withSet bool
}

// Write is one request that changes something.
type Write struct {
	// Verb and Object are for display.
	Verb   string `json:"verb"`
	Object string `json:"object"`
	// Why is the purpose of the write.
	Why  string          `json:"why,omitempty"`
	Body json.RawMessage `json:"body,omitempty"`
}

// Report is the result of a move.
type Report struct {
	From      tracking.App `json:"from"`
	To        tracking.App `json:"to"`
	Resources []*Resource  `json:"resources"`
}

// move is one move, in either direction.
type move struct {
	Options
	// inspector and kinds are for the cluster of both Applications.
	inspector *inspect.Inspector
	kinds     *live.Kinds
	tracker   tracking.Tracker

	// argo and ours are nil if they do not exist.
	argo, ours *inspect.Application
	held       *heldSettings
	origin     *origin
	// project is Argo CD's, if the runtime needs a copy.
	project *unstructured.Unstructured
}

// newMove reads both Applications.
func newMove(ctx context.Context, options Options) (*move, error) {
	m := &move{
		Options: options, inspector: &inspect.Inspector{Cluster: options.Cluster, Manager: manager},
		kinds: live.NewKinds(options.Cluster), tracker: tracking.Tracker{ControlNamespace: options.ControlNamespace},
	}
	m.Wait = cmp.Or(m.Wait, defaultWait)
	var err error
	if m.argo, err = m.get(ctx, m.From); err != nil {
		return nil, err
	}
	if m.argo != nil {
		if m.held, err = readHeld(m.argo.Annotations); err != nil {
			return nil, fmt.Errorf("the Application %s: %w", m.From, err)
		}
	}
	// An earlier attempt deleted it, and the API server takes a moment.
	if m.held != nil && m.argo.DeletionTimestamp != nil {
		// An earlier move has deleted it; the cluster takes a moment.
		if err := m.awaitGone(ctx, m.From); err != nil {
			return nil, err
		}
		m.argo, m.held = nil, nil
	}
	return m, m.lookAtOurs(ctx)
}

// lookAtOurs reads the runtime's Application and its record of the origin.
func (m *move) lookAtOurs(ctx context.Context) (err error) {
	if m.ours, err = m.get(ctx, m.To); err != nil || m.ours == nil {
		m.origin = nil
		return err
	}
	if m.origin, err = readOrigin(m.ours.Annotations); err != nil {
		return fmt.Errorf("the Application %s: %w", m.To, err)
	}
	return nil
}

// get reads an Application; nil if it does not exist. Only the absence of the
// object is nil; a missing right is an error, because a move must not take an
// Application for deleted.
func (m *move) get(ctx context.Context, place tracking.App) (*inspect.Application, error) {
	app, err := m.inspector.Get(ctx, place)
	if access, ok := errors.AsType[*inspect.AccessError](err); ok && apierrors.IsNotFound(access.Err) {
		return nil, nil
	}
	return app, err
}

// projects is the client for AppProjects.
func (m *move) projects(namespace string) dynamic.ResourceInterface {
	return m.Cluster.Dynamic.Resource(v1alpha1.ProjectResource()).Namespace(namespace)
}

// report passes a write to the caller.
func (m *move) report(write Write) {
	if m.Report != nil {
		m.Report(write)
	}
}

// Run moves an Application to the runtime. After an interruption it continues
// where it stopped. All checks come before the first write, so that a refused
// move changes nothing. Every step is idempotent and reads its progress from
// the cluster: there is no state on the client.
func Run(ctx context.Context, options Options) (Report, error) {
	report := Report{From: options.From, To: options.To, Resources: []*Resource{}}
	m, err := newMove(ctx, options)
	if err != nil {
		return report, err
	}
	found, err := m.checkTarget(ctx)
	if err != nil {
		return report, err
	}
	if m.argo != nil && m.held == nil {
		found = append(found, Check(m.argo)...)
		found = slices.DeleteFunc(found, func(f finding.Finding) bool { return f.Code == CodeGenerated && m.withSet })
	}
	if found = m.blocking(found); len(found) > 0 {
		return report, m.refuse(found)
	}
	if m.argo == nil && m.origin == nil {
		return report, fmt.Errorf("there is no Application %s: slipway app migrate without a name lists those of Argo CD", m.From)
	}
	if m.argo != nil {
		if report.Resources, err = m.moveUntilDeleted(ctx); err != nil {
			return report, err
		}
	}
	if err := m.enable(ctx); err != nil {
		return report, err
	}
	if m.DryRun {
		return report, nil
	}
	return report, m.compare(ctx, report.Resources)
}

// moveUntilDeleted runs all steps until Argo CD's Application is deleted. The
// order keeps a way back at every point: ours exists with the record of the
// original before any mark changes, and Argo CD's Application is deleted only
// when the runtime has confirmed the comparison.
func (m *move) moveUntilDeleted(ctx context.Context) ([]*Resource, error) {
	resources, err := m.find(ctx, m.argo)
	if err != nil {
		return nil, err
	}
	instance := m.classify(m.From, resources)
	for _, step := range []func() error{
		func() error { return m.copyProject(ctx) },
		func() error { return m.hold(ctx) },
		func() error { return m.makeOurs(ctx, instance, resources) },
		func() error { return m.addMarks(ctx, resources) },
		func() error { return m.awaitCompared(ctx) },
		func() error { return m.deleteTheirs(ctx) },
	} {
		if err := step(); err != nil {
			return resources, err
		}
	}
	return resources, nil
}

// copyProject creates the project that the runtime does not have. One that was
// created meanwhile is kept: the runtime's project wins.
func (m *move) copyProject(ctx context.Context) error {
	if m.project == nil {
		return nil
	}
	made := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": m.project.GetAPIVersion(), "kind": m.project.GetKind(),
		"metadata": map[string]any{"name": m.project.GetName(), "namespace": m.ControlNamespace},
		"spec":     m.project.Object["spec"],
	}}
	made.SetLabels(m.project.GetLabels()) // they choose its global projects
	write, err := m.creation(made, "the runtime needs the project")
	if err != nil || m.DryRun {
		m.report(write)
		return err
	}
	_, err = m.projects(m.ControlNamespace).Create(ctx, made, metav1.CreateOptions{FieldManager: manager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the AppProject %s: %w", made.GetName(), err)
	}
	m.report(write)
	return nil
}

// creation describes the creation of an object, without passwords in its
// addresses.
func (m *move) creation(object *unstructured.Unstructured, why string) (Write, error) {
	shown := inspect.ShownApplication(&inspect.Application{Object: object})
	if annotations := shown.GetAnnotations(); annotations[annotationOrigin] != "" {
		annotations[annotationOrigin] = "(what Argo CD's Application was)"
		shown.SetAnnotations(annotations)
	}
	body, err := shown.MarshalJSON()
	return Write{Verb: "create", Object: object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName(), Why: why, Body: body}, err
}

// change patches an Application with the result of a function; nil changes
// nothing. After a conflict the function is called again. A dry run evaluates
// the patch once on the state that was read.
func (m *move) change(ctx context.Context, app *inspect.Application, why string, patch func(*inspect.Application) (map[string]any, error)) (*inspect.Application, error) {
	body, err := patch(app)
	if err != nil || body == nil {
		return app, err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	write := Write{Verb: "patch", Object: "Application " + app.ID().String(), Why: why, Body: text}
	if m.DryRun {
		m.report(write)
		return app, nil
	}
	changed, err := m.inspector.Change(ctx, app, func(now *inspect.Application) (map[string]any, error) {
		body, err := patch(now)
		if body == nil && err == nil {
			body = map[string]any{}
		}
		return body, err
	})
	if err != nil {
		return nil, err
	}
	m.report(write)
	return changed, nil
}
