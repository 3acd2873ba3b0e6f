package progressive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/kube"
)

const (
	// requestTimeout bounds a request that is no watch.
	requestTimeout = 30 * time.Second
	// listPage bounds one response of a list.
	listPage = 500
)

// Action is what a person requests.
type Action string

// The actions of both kinds. A Release spells them the same.
const (
	Promote     = Action(v1alpha1.ReleasePromote)
	PromoteFull = Action(v1alpha1.ReleasePromoteFull)
	Abort       = Action(v1alpha1.ReleaseAbort)
	Pause       = Action(v1alpha1.ReleasePause)
	Resume      = Action(v1alpha1.ReleaseResume)
	Retry       = Action(v1alpha1.ReleaseRetry)
)

// Actions returns all actions that [Reader.Act] accepts.
func Actions() []Action { return []Action{Promote, PromoteFull, Abort, Pause, Resume, Retry} }

// ErrNoKinds means that the cluster has neither kind.
var ErrNoKinds = errors.New("the cluster has neither Rollouts nor Releases")

// AccessError is an error of the API server. Callers explain it by verb and
// kind, as most are missing rights.
type AccessError struct {
	Verb string
	// ID has no name for a list, and no namespace for one of all namespaces.
	ID  ID
	Err error
}

// Error names the request.
func (e *AccessError) Error() string {
	if e.ID.Name == "" {
		return fmt.Sprintf("%s %ss in the namespace %q: %v", e.Verb, e.ID.Kind, e.ID.Namespace, e.Err)
	}
	return fmt.Sprintf("%s %s: %v", e.Verb, e.ID, e.Err)
}

// Unwrap returns the error of the API server.
func (e *AccessError) Unwrap() error { return e.Err }

// NotFoundError means that no object has the name.
type NotFoundError struct {
	// Kind is empty if both kinds were searched.
	Kind            Kind
	Namespace, Name string
}

// Error names the object.
func (e *NotFoundError) Error() string {
	kind := string(e.Kind)
	if kind == "" {
		kind = "Rollout or Release"
	}
	return fmt.Sprintf("there is no %s %s in the namespace %s", kind, e.Name, e.Namespace)
}

// AmbiguousError means that both kinds have an object of the name.
type AmbiguousError struct{ Namespace, Name string }

// Error names both.
func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("the namespace %[1]s has a Rollout and a Release %[2]s: write rollout/%[2]s or release/%[2]s", e.Namespace, e.Name)
}

// Reader reads and changes Rollouts and Releases with the rights of its cluster's
// client.
type Reader struct {
	*kube.Cluster
	// Manager is the field manager of the changes.
	Manager string
}

func (r *Reader) of(kind Kind, namespace string) dynamic.ResourceInterface {
	return r.Dynamic.Resource(kind.Resource()).Namespace(namespace)
}

// List returns the states of a namespace, or of all with an empty one, by
// namespace and name. A kind that the cluster does not have is left out.
func (r *Reader) List(ctx context.Context, namespace string) ([]*State, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var states []*State
	missing := 0
	for _, kind := range Kinds() {
		err := r.list(ctx, kind, namespace, &states)
		switch {
		case kube.MissingKind(err):
			missing++
		case err != nil:
			return nil, &AccessError{Verb: "list", ID: ID{Kind: kind, Namespace: namespace}, Err: err}
		}
	}
	if missing == len(Kinds()) {
		return nil, ErrNoKinds
	}
	slices.SortFunc(states, func(a, b *State) int { return compareIDs(a.ID, b.ID) })
	return states, nil
}

// list appends the states of one kind, page by page.
func (r *Reader) list(ctx context.Context, kind Kind, namespace string, into *[]*State) error {
	options := metav1.ListOptions{Limit: listPage}
	for {
		page, err := r.of(kind, namespace).List(ctx, options)
		if err != nil {
			return err
		}
		for i := range page.Items {
			state, err := StateOf(&page.Items[i])
			if err != nil {
				return err
			}
			*into = append(*into, state)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// Get returns the state of one object with its revisions.
func (r *Reader) Get(ctx context.Context, id ID) (*State, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	state, err := r.get(ctx, id)
	if err != nil {
		return nil, err
	}
	return state, r.AddRevisions(ctx, state)
}

func (r *Reader) get(ctx context.Context, id ID) (*State, error) {
	object, err := r.of(id.Kind, id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
	switch {
	case kube.MissingKind(err):
		return nil, ErrNoKinds
	case apierrors.IsNotFound(err):
		return nil, &NotFoundError{id.Kind, id.Namespace, id.Name}
	case err != nil:
		return nil, &AccessError{Verb: "get", ID: id, Err: err}
	}
	return StateOf(object)
}

// Find returns the object of a name, whichever kind has it. It has no revisions
// of a Rollout. A kind that the caller may not read counts only if the other has
// no such object.
func (r *Reader) Find(ctx context.Context, namespace, name string) (*State, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var found *State
	var failure error
	missing := 0
	for _, kind := range Kinds() {
		state, err := r.get(ctx, ID{kind, namespace, name})
		var absent *NotFoundError
		switch {
		case errors.Is(err, ErrNoKinds):
			missing++
		case errors.As(err, &absent):
		case err != nil:
			failure = firstError(failure, err)
		case found != nil:
			return nil, &AmbiguousError{namespace, name}
		default:
			found = state
		}
	}
	switch {
	case found != nil:
		return found, nil
	case failure != nil:
		return nil, failure
	case missing == len(Kinds()):
		return nil, ErrNoKinds
	}
	return nil, &NotFoundError{"", namespace, name}
}

// firstError returns the first error that is not nil.
func firstError(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// Follow calls changed with the state and its revisions at first and after each
// change of the object, until changed returns true or an error, or the context is
// done. An object that is deleted meanwhile is a *[NotFoundError].
func (r *Reader) Follow(ctx context.Context, id ID, changed func(*State) (bool, error)) error {
	var failure error
	_, err := kube.WaitFor(ctx, r.of(id.Kind, id.Namespace), kube.Named(id.Name), func(objects []*unstructured.Unstructured) error {
		done, err := r.observe(ctx, id, objects, changed)
		if failure = err; done || failure != nil {
			return nil
		}
		return fmt.Errorf("%s is not done", id)
	})
	return firstError(failure, err)
}

// observe calls changed with what a watch returned.
func (r *Reader) observe(ctx context.Context, id ID, objects []*unstructured.Unstructured, changed func(*State) (bool, error)) (bool, error) {
	if len(objects) == 0 {
		return false, &NotFoundError{id.Kind, id.Namespace, id.Name}
	}
	state, err := StateOf(objects[0])
	if err == nil {
		err = r.AddRevisions(ctx, state)
	}
	if err != nil {
		return false, err
	}
	return changed(state)
}

// Act requests an action. It does not wait for the controller.
func (r *Reader) Act(ctx context.Context, state *State, action Action) error {
	if !slices.Contains(Actions(), action) {
		return fmt.Errorf("%q is no action of a release", action)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if state.Kind == KindRollout {
		return r.actOnRollout(ctx, state, action)
	}
	return r.actOnRelease(ctx, state, action)
}
