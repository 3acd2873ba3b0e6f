package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// manager owns what this package writes.
const manager = "slipway-migrate"

// defaultWait is how long the runtime has to compare the Application with Git.
const defaultWait = 2 * time.Minute

// Options say what is moved.
type Options struct {
	Cluster *kube.Cluster
	// From is Argo CD's Application, and To the runtime's.
	From, To tracking.App
	// ControlNamespace is that of the runtime.
	ControlNamespace string
	// Force moves what is not synced, or what a parent Application has in Git.
	Force bool
	// DryRun tells every write, and makes none.
	DryRun bool
	// Wait is how long the runtime has to compare; 0 is two minutes.
	Wait time.Duration
	// Tell is called for every write; it may be nil.
	Tell func(Write)
}

// Write is one request that changes something.
type Write struct {
	Verb   string `json:"verb"`
	Object string `json:"object"`
	// Why says what the write is for.
	Why  string          `json:"why,omitempty"`
	Body json.RawMessage `json:"body,omitempty"`
}

// Report is what came of a move.
type Report struct {
	From      tracking.App `json:"from"`
	To        tracking.App `json:"to"`
	Resources []*Resource  `json:"resources"`
}

// move is one move, in either direction.
type move struct {
	Options
	inspector *inspect.Inspector
	kinds     *live.Kinds
	tracker   tracking.Tracker

	// argo and ours are nil when they are not there.
	argo, ours *inspect.Application
	held       *held
	origin     *origin
	// project is Argo CD's, if the runtime needs a copy.
	project *unstructured.Unstructured
}

// newMove looks at both Applications.
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
	if m.held != nil && m.argo.DeletionTimestamp != nil {
		// An earlier move has deleted it; the cluster takes a moment.
		if err := m.awaitGone(ctx, m.From); err != nil {
			return nil, err
		}
		m.argo, m.held = nil, nil
	}
	return m, m.lookAtOurs(ctx)
}

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

// get reads an Application; nil if it is not there.
func (m *move) get(ctx context.Context, place tracking.App) (*inspect.Application, error) {
	app, err := m.inspector.Get(ctx, place)
	var access *inspect.AccessError
	if errors.As(err, &access) && apierrors.IsNotFound(access.Err) {
		return nil, nil
	}
	return app, err
}

func (m *move) projects(namespace string) dynamic.ResourceInterface {
	return m.Cluster.Dynamic.Resource(v1alpha1.ProjectResource()).Namespace(namespace)
}

func (m *move) tell(write Write) {
	if m.Tell != nil {
		m.Tell(write)
	}
}

// Run moves an Application to the runtime. Started again after an interruption, it
// goes on where it was.
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
	}
	if found = m.blocking(found); len(found) > 0 {
		return report, &RefusedError{App: m.From, Findings: found}
	}
	if m.argo == nil && m.origin == nil {
		return report, fmt.Errorf("there is no Application %s: slipway app migrate without a name lists those of Argo CD", m.From)
	}
	if m.argo != nil {
		if report.Resources, err = m.take(ctx); err != nil {
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

// take is everything up to the moment when Argo CD's Application is gone.
func (m *move) take(ctx context.Context) ([]*Resource, error) {
	resources, err := m.find(ctx, m.argo)
	if err != nil {
		return nil, err
	}
	instance := m.judge(m.From, resources)
	for _, step := range []func() error{
		func() error { return m.copyProject(ctx) },
		func() error { return m.hold(ctx) },
		func() error { return m.makeOurs(ctx, instance, resources) },
		func() error { return m.stamp(ctx, resources) },
		func() error { return m.awaitCompared(ctx) },
		func() error { return m.dismiss(ctx) },
	} {
		if err := step(); err != nil {
			return resources, err
		}
	}
	return resources, nil
}

// copyProject makes the project that the runtime does not have.
func (m *move) copyProject(ctx context.Context) error {
	if m.project == nil {
		return nil
	}
	made := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": m.project.GetAPIVersion(), "kind": m.project.GetKind(),
		"metadata": map[string]any{"name": m.project.GetName(), "namespace": m.ControlNamespace},
		"spec":     m.project.Object["spec"],
	}}
	write, err := m.creation(made, "the runtime needs the project")
	if err != nil || m.DryRun {
		m.tell(write)
		return err
	}
	_, err = m.projects(m.ControlNamespace).Create(ctx, made, metav1.CreateOptions{FieldManager: manager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the AppProject %s: %w", made.GetName(), err)
	}
	m.tell(write)
	return nil
}

// creation tells of an object that is made, without the passwords of its addresses.
func (m *move) creation(object *unstructured.Unstructured, why string) (Write, error) {
	shown := inspect.ShownApplication(&inspect.Application{Object: object})
	if annotations := shown.GetAnnotations(); annotations[annotationOrigin] != "" {
		annotations[annotationOrigin] = "(what Argo CD's Application was)"
		shown.SetAnnotations(annotations)
	}
	body, err := shown.MarshalJSON()
	return Write{Verb: "create", Object: object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName(), Why: why, Body: body}, err
}

// change patches an Application with what the function says; nil changes nothing. It
// is asked again when somebody was faster.
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
		m.tell(write)
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
	m.tell(write)
	return changed, nil
}
