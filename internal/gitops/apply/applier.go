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

// Options are those of one write.
type Options struct {
	// DryRun changes nothing. Fields of other managers are not taken over then,
	// so what that would remove is not shown.
	DryRun bool
	// Ignore are the differences that are left alone with the option
	// RespectIgnoreDifferences. Nil is none.
	Ignore *plan.Ignore
}

// Applier writes objects, as the agent or as a service account. It is safe for
// concurrent use; the caches are shared by all users, because they depend on
// objects and not on rights.
type Applier struct {
	*shared
	// user is who is impersonated; empty for the agent itself.
	user string
}

// shared is what the Appliers of all users have in common.
type shared struct {
	cluster   *kube.Cluster
	kinds     *live.Kinds
	requests  rest.Interface
	clientErr error
	backoff   backoffSettings
	noops     noopCache
	onWrite   func([]byte)
}

// New makes an Applier that writes as the agent. It sends nothing.
func New(cluster *kube.Cluster, kinds *live.Kinds) *Applier {
	shared := &shared{cluster: cluster, kinds: kinds, backoff: defaultBackoff(), onWrite: func([]byte) {}}
	shared.requests, shared.clientErr = live.Requests(cluster)
	return &Applier{shared: shared}
}

// NoteTo hands on each object that was written, as JSON: it is for
// live.Cache.NoteJSON, and saves the Cache from encoding it again. It must be
// called before anything is written.
func (a *Applier) NoteTo(note func(raw []byte)) { a.shared.onWrite = note }

// As is an Applier that acts as a service account. It shares everything with
// the first: impersonation is a header of each request.
func (a *Applier) As(who Impersonation) (*Applier, error) {
	for _, name := range []string{who.Namespace, who.ServiceAccount} {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return nil, fmt.Errorf("%.80q/%.80q is no service account: %s", who.Namespace, who.ServiceAccount, strings.Join(problems, "; "))
		}
	}
	return &Applier{shared: a.shared, user: "system:serviceaccount:" + who.Namespace + ":" + who.ServiceAccount}, nil
}

// Apply carries out a step, and returns the object as the API server has it
// now. Its errors are of the type *Error.
func (a *Applier) Apply(ctx context.Context, step *plan.Step, options Options) (*unstructured.Unstructured, error) {
	w, err := a.prepare(ctx, step, options)
	if err != nil {
		return nil, err
	}
	if w.isNoop() {
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

// objectWrite is one object that is being written.
type objectWrite struct {
	*Applier
	step    *plan.Step
	options Options
	ref     objectRef
	// object is what is sent.
	object map[string]any
	body   []byte
}

// isNoop reports whether the apply certainly changes nothing of the live
// object, as it was when the plan was built. A later change shows in the watch,
// and is drift.
func (w *objectWrite) isNoop() bool {
	live := w.step.Live
	if w.step.Action != plan.Apply || w.step.Options.Replace || live == nil || live.GetDeletionTimestamp() != nil {
		return false
	}
	return isCertainNoop(w.object, live) || w.noops.has(request{w.object, w.body}, live)
}

// objectRef is where an object is, with the Secret values that errors must not
// show.
type objectRef struct {
	key     tracking.Key
	mapping live.Mapping
	path    string
	secrets mask
}

// prepare finds the path of an object and the body to send.
func (a *Applier) prepare(ctx context.Context, step *plan.Step, options Options) (*objectWrite, error) {
	if step.Object == nil {
		return nil, &Error{Kind: Invalid, Key: step.Key, Message: "there is nothing to write"}
	}
	w := &objectWrite{Applier: a, step: step, options: options}
	var err error
	if w.ref, err = a.refOf(ctx, step.Object); err != nil {
		return nil, err
	}
	w.ref.secrets = maskOf(w.ref.key, step.Object, step.Live)
	w.object = sanitize(step.Object.Object)
	if step.Options.RespectIgnoreDifferences && options.Ignore != nil && step.Live != nil {
		w.object = withoutIgnored(w.object, step.Live, options.Ignore)
	}
	w.body, err = json.Marshal(w.object)
	if err != nil {
		return nil, w.ref.newError(Invalid, "it cannot be written as JSON", err)
	}
	return w, nil
}

// refOf finds the path of an object by discovery.
func (a *Applier) refOf(ctx context.Context, object *unstructured.Unstructured) (objectRef, error) {
	at := objectRef{key: tracking.KeyOf(object)}
	if a.clientErr != nil {
		return at, at.newError(Transient, "there is no client for the API server", a.clientErr)
	}
	var err error
	at.mapping, err = a.kinds.Mapping(ctx, object.GroupVersionKind())
	if live.IsUnknownKind(err) {
		return at, at.newError(NotFound, err.Error(), err)
	}
	if err != nil {
		return at, at.newError(Transient, err.Error(), err)
	}
	return at, at.find()
}

// find makes the path of the object, and checks that its scope is that of the
// kind.
func (p *objectRef) find() error {
	if p.key.Name == "" {
		return p.newError(Invalid, "it has no name", nil)
	}
	if p.mapping.Namespaced && p.key.Namespace == "" {
		return p.newError(Invalid, "it has no namespace", nil)
	}
	// A kind that was not known yet when the project judged it may turn out to
	// belong to the whole cluster, and was judged as one that does not.
	if !p.mapping.Namespaced && p.key.Namespace != "" {
		return p.newError(Invalid, "its kind has no namespaces: remove the namespace from the object, and sync again", nil)
	}
	var err error
	if p.path, err = p.mapping.Path(p.key.Namespace, p.key.Name); err != nil {
		return p.newError(Invalid, err.Error(), err)
	}
	return nil
}

// finish decodes the response, passes it on, and adds it to the cache of
// no-ops.
func (w *objectWrite) finish(raw []byte) (*unstructured.Unstructured, error) {
	response, err := decode(raw)
	if err != nil {
		return nil, w.ref.newError(Transient, err.Error(), nil)
	}
	if w.options.DryRun {
		return response, nil
	}
	w.onWrite(raw)
	if w.ref.key.Kind == "CustomResourceDefinition" && !w.kinds.Learn(response) {
		w.kinds.Invalidate()
	}
	if w.step.Action == plan.Apply && !isCertainNoop(w.object, response) && resembles(w.object, response.Object) {
		w.noops.add(request{w.object, w.body}, response)
	}
	return response, nil
}

// errResponse has no detail: the text that could not be decoded may be that of
// a Secret.
var errResponse = errors.New("the API server's response is not the JSON of an object")
