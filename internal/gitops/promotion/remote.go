package promotion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/codefresh/v1beta1"
	"slipway.dev/slipway/api/refusal"
	slipway "slipway.dev/slipway/api/v1alpha1"
)

// RemoteApplications reads the Applications of a Product in another runtime, as the
// platform knows them. A *refusal.Refusal is what a person has to change; other errors
// are tried again.
type RemoteApplications func(ctx context.Context, runtime, product string) ([]*v1alpha1.Application, error)

// remoteTimeout bounds one request to the platform.
const remoteTimeout = 10 * time.Second

// runtimeOf is the other runtime that has an Application; empty for our own. It is in
// front of the namespace, so that its name in a status is RUNTIME:NAMESPACE/NAME.
func runtimeOf(app *v1alpha1.Application) string {
	runtime, _, isRemote := strings.Cut(app.Namespace, ":")
	if !isRemote {
		return ""
	}
	return runtime
}

// checkRemote refuses gates that need the other cluster.
func checkRemote(of *slipway.Environment) error {
	if of.Spec.Runtime == "" || of.Spec.Gates == nil || of.Spec.Gates.Traffic == nil {
		return nil
	}
	return &refusal.Refusal{
		Object: refusal.Object{Group: slipway.Group, Kind: slipway.KindEnvironment, Namespace: of.Namespace, Name: of.Name},
		Field:  "spec.gates.traffic", Reason: refusal.Unsupported,
		Message: fmt.Sprintf("the edges of the runtime %s are not read from here: use healthyFor, or a flow of that runtime with the gate", of.Spec.Runtime),
	}
}

// readable returns why the Applications of an environment are not known.
func (c *catalog) readable(in *slipway.Environment) error {
	err := c.unread[in.Spec.Runtime]
	if _, isRefused := errors.AsType[*refusal.Refusal](err); err == nil || isRefused {
		return err
	}
	return notReadyError{err}
}

// remoteCache has the Applications that were read last, so that several Promotions of a
// Product do not ask the platform for the same.
type remoteCache struct {
	mu   sync.Mutex
	read map[remoteKey]remoteApps
}

// remoteKey is a Product in a runtime.
type remoteKey struct{ runtime, product string }

// remoteApps is a result of the platform.
type remoteApps struct {
	at   time.Time
	apps []*v1alpha1.Application
	err  error
}

// readRemote adds the Applications of other runtimes to the view of a run, and makes the
// next run due. Nothing is asked for a Product without an Environment of another runtime.
func (r *run) readRemote(ctx context.Context) {
	product := r.promotion.Spec.Product
	if isFinished(r.promotion) {
		return
	}
	for _, environment := range r.remoteEnvironments(product) {
		found := r.remoteApplications(ctx, remoteKey{environment.Spec.Runtime, product})
		if found.err != nil {
			r.catalog.unread[environment.Spec.Runtime] = found.err
		}
		for _, given := range found.apps {
			app := *given
			app.Namespace = environment.Spec.Runtime + ":" + given.Namespace
			app.Spec.Project = environment.Spec.Project
			if isIn(&app, environment) {
				r.catalog.apps[types.NamespacedName{Namespace: app.Namespace, Name: app.Name}] = &app
			}
		}
		r.wakeIn(r.remoteInterval())
	}
}

// remoteInterval is how often the platform is asked.
func (c *Controller) remoteInterval() time.Duration { return 2 * c.options.Interval }

// remoteEnvironments are the environments of other runtimes that a Promotion leads
// through, or all of the flows of its Product before it has begun.
func (r *run) remoteEnvironments(product string) []*slipway.Environment {
	var names []string
	if from := r.promotion.Status.Source; from != nil {
		names = append(names, from.Environment)
		for _, step := range r.promotion.Status.Steps {
			names = append(names, step.Environment)
		}
	} else {
		names = r.catalog.flowEnvironments(product, r.promotion.Spec.Flow)
	}
	slices.Sort(names)
	var found []*slipway.Environment
	for _, name := range slices.Compact(names) {
		if one := r.catalog.environments[name]; one != nil && one.Spec.Runtime != "" {
			found = append(found, one)
		}
	}
	return found
}

// flowEnvironments are the environments of a flow, or of all flows of a Product.
func (c *catalog) flowEnvironments(product, named string) (names []string) {
	flows := []string{named}
	if known, err := lookUp(c.products, v1beta1.KindProduct, product); err == nil && named == "" {
		for _, one := range known.Spec.PromotionFlows {
			flows = append(flows, one.Name)
		}
	}
	for _, one := range flows {
		flow, err := lookUp(c.flows, v1beta1.KindPromotionFlow, one)
		if err != nil {
			continue // the plan reports it
		}
		names = append(names, flow.Spec.TriggerEnvironment)
		for _, step := range flow.Spec.Steps {
			names = append(names, step.Environment)
		}
	}
	return names
}

// remoteApplications reads the Applications of a Product in a runtime, at most once in an
// interval.
func (c *Controller) remoteApplications(ctx context.Context, key remoteKey) remoteApps {
	if c.options.Remote == nil {
		return remoteApps{err: refusal.New("spec.runtime", refusal.Unsupported, "the agent has no platform, which knows the Applications of the runtime %s: register the agent as a runtime", key.runtime)}
	}
	c.remote.mu.Lock()
	defer c.remote.mu.Unlock()
	if known, exists := c.remote.read[key]; exists && time.Since(known.at) < c.remoteInterval() {
		return known
	}
	bounded, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	apps, err := c.options.Remote(bounded, key.runtime, key.product)
	if c.remote.read == nil {
		c.remote.read = map[remoteKey]remoteApps{}
	}
	c.remote.read[key] = remoteApps{time.Now(), apps, err}
	return c.remote.read[key]
}
