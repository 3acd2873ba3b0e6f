package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// Manager is the field manager of all that is written.
const Manager = "slipway"

// Impersonation is the service account as which is written.
type Impersonation struct {
	Namespace      string
	ServiceAccount string
}

// Options are those of one request.
type Options struct {
	// DryRun asks what would happen, and changes nothing. Fields of other
	// managers are not taken over then, so what that would remove is not shown.
	DryRun bool
	// Ignore are the differences that are left alone with the option
	// RespectIgnoreDifferences. Nil is none.
	Ignore *plan.Ignore
}

// Applier writes objects. It is safe for concurrent use.
type Applier struct {
	*workshop
	// user is empty for the agent itself.
	user string
}

// workshop is what the Appliers of all users share.
type workshop struct {
	cluster  *kube.Cluster
	kinds    *live.Kinds
	requests rest.Interface
	broken   error
	pace     pace
	known    memory
	note     func([]byte)
}

// New makes an Applier that writes as the agent. It sends nothing.
func New(cluster *kube.Cluster, kinds *live.Kinds) *Applier {
	shared := &workshop{cluster: cluster, kinds: kinds, pace: defaultPace(), note: func([]byte) {}}
	shared.requests, shared.broken = live.Requests(cluster)
	return &Applier{workshop: shared}
}

// NoteTo hands on each object that was written, as JSON: it is for
// live.Cache.NoteJSON, and saves the Cache from encoding it again. It must be
// called before anything is written.
func (a *Applier) NoteTo(note func(raw []byte)) { a.workshop.note = note }

// As is an Applier that acts as a service account. It costs nothing: who asks is
// said with each request.
func (a *Applier) As(who Impersonation) (*Applier, error) {
	for _, name := range []string{who.Namespace, who.ServiceAccount} {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return nil, fmt.Errorf("%.80q/%.80q is no service account: %s", who.Namespace, who.ServiceAccount, strings.Join(problems, "; "))
		}
	}
	return &Applier{workshop: a.workshop, user: "system:serviceaccount:" + who.Namespace + ":" + who.ServiceAccount}, nil
}

// Apply does what a step says, and gives the object as the API server has it
// now. Its errors are of the type *Error.
func (a *Applier) Apply(ctx context.Context, step *plan.Step, options Options) (*unstructured.Unstructured, error) {
	w, err := a.begin(ctx, step, options)
	if err != nil {
		return nil, err
	}
	if w.isSettled() {
		return step.Live.DeepCopy(), nil
	}
	var raw []byte
	switch {
	case !step.Options.Replace && step.Action != plan.Replace && step.Action != plan.CreateOnly:
		raw, err = w.apply(ctx)
	case step.Live == nil:
		raw, err = w.create(ctx)
	case step.Options.Force:
		raw, err = w.recreate(ctx, w.create)
	default:
		raw, err = w.replace(ctx)
	}
	if err != nil {
		return nil, err
	}
	return w.finish(raw)
}

// writing is one object that is being written.
type writing struct {
	*Applier
	step    *plan.Step
	options Options
	place   place
	// object is what is sent.
	object map[string]any
	body   []byte
}

// isSettled reports whether applying the object certainly changes nothing of the
// live one, as it was when the plan was made. Whoever has changed it since shows
// in the watch, and is drift.
func (w *writing) isSettled() bool {
	live := w.step.Live
	if w.step.Action != plan.Apply || w.step.Options.Replace || live == nil || live.GetDeletionTimestamp() != nil {
		return false
	}
	return isCertain(w.object, live) || w.known.knows(request{w.object, w.body}, live)
}

// place is where an object is, and what must not be told of it.
type place struct {
	key     tracking.Key
	mapping live.Mapping
	path    string
	secrets mask
}

// begin finds out where an object goes, and what of it.
func (a *Applier) begin(ctx context.Context, step *plan.Step, options Options) (*writing, error) {
	if step.Object == nil {
		return nil, &Error{Kind: Invalid, Key: step.Key, Message: "there is nothing to write"}
	}
	w := &writing{Applier: a, step: step, options: options}
	var err error
	if w.place, err = a.placeOf(ctx, step.Object); err != nil {
		return nil, err
	}
	w.place.secrets = maskOf(w.place.key, step.Object, step.Live)
	w.object = tidy(step.Object.Object)
	if step.Options.RespectIgnoreDifferences && options.Ignore != nil && step.Live != nil {
		w.object = respect(w.object, step.Live, options.Ignore)
	}
	w.body, err = json.Marshal(w.object)
	if err != nil {
		return nil, w.place.fault(Invalid, "it cannot be written as JSON", err)
	}
	return w, nil
}

// placeOf finds where an object is.
func (a *Applier) placeOf(ctx context.Context, object *unstructured.Unstructured) (place, error) {
	at := place{key: tracking.KeyOf(object)}
	if a.broken != nil {
		return at, at.fault(Transient, "there is no client for the API server", a.broken)
	}
	var err error
	at.mapping, err = a.kinds.Mapping(ctx, object.GroupVersionKind())
	if live.IsUnknownKind(err) {
		return at, at.fault(NotFound, err.Error(), err)
	}
	if err != nil {
		return at, at.fault(Transient, err.Error(), err)
	}
	return at, at.find()
}

// find makes the path of the object.
func (p *place) find() error {
	if p.key.Name == "" {
		return p.fault(Invalid, "it has no name", nil)
	}
	if p.mapping.Namespaced && p.key.Namespace == "" {
		return p.fault(Invalid, "it has no namespace", nil)
	}
	// A kind that was not known yet when the project judged it may turn out to
	// belong to the whole cluster, and was judged as one that does not.
	if !p.mapping.Namespaced && p.key.Namespace != "" {
		return p.fault(Invalid, "its kind has no namespaces: remove the namespace from the object, and sync again", nil)
	}
	var err error
	if p.path, err = p.mapping.Path(p.key.Namespace, p.key.Name); err != nil {
		return p.fault(Invalid, err.Error(), err)
	}
	return nil
}

// finish decodes what the API server answered, and remembers it.
func (w *writing) finish(raw []byte) (*unstructured.Unstructured, error) {
	answer, err := decode(raw)
	if err != nil {
		return nil, w.place.fault(Transient, err.Error(), nil)
	}
	if w.options.DryRun {
		return answer, nil
	}
	w.note(raw)
	if w.place.key.Kind == "CustomResourceDefinition" && !w.kinds.Learn(answer) {
		w.kinds.Invalidate()
	}
	if w.step.Action == plan.Apply && !isCertain(w.object, answer) && resembles(w.object, answer.Object) {
		w.known.learn(request{w.object, w.body}, answer)
	}
	return answer, nil
}

var errAnswer = errors.New("the API server's answer is not the JSON of an object")
