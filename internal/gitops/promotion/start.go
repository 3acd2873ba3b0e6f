package promotion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"slipway.dev/slipway/api/codefresh/v1beta1"
	"slipway.dev/slipway/api/refusal"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// automaticBy is who starts promotions that begin by themselves, as people see it.
const automaticBy = "slipway (automatic)"

// endedPromotion is a Promotion that has ended.
type endedPromotion struct {
	name, product string
	started       time.Time
	// values is the digest of what was promoted.
	values string
}

// putEnded remembers what a Promotion that has ended promoted.
func (c *Controller) putEnded(of *slipway.Promotion) {
	if of.DeletionTimestamp != nil || of.Status.Source == nil || of.Status.StartedAt == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended[of.Name] = endedPromotion{of.Name, of.Spec.Product, of.Status.StartedAt.Time, of.Status.Source.Values}
}

// putStart begins or ends to look at a Product, as its annotation says.
func (c *Controller) putStart(product string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// One that is refused is looked at, too: an Event has the reason.
	found, exists := c.catalog.products[product]
	if !exists || !found.object.Automatic {
		delete(c.starts, product)
		return
	}
	if c.starts[product] == nil {
		c.starts[product] = &record{product: product}
		c.wakeUp()
	}
}

// startIfDue creates a Promotion of a Product if the trigger environment has values that
// are not in the next environments. A version that was promoted last is not started
// again, however its Promotion ended: a person has decided against it, or has to repair
// something.
func (c *Controller) startIfDue(ctx context.Context, of *record) (time.Duration, error) {
	if c.hasPromotion(of.product) {
		// What was created is known by the watch from here on.
		of.started = ""
		return 0, nil
	}
	// The plan is the same as for a Promotion that a person starts, and it is not recorded.
	r := &run{Controller: c, record: of, catalog: c.view(), promotion: &slipway.Promotion{}, now: time.Now()}
	r.promotion.Namespace, r.promotion.Spec.Product = c.options.ControlNamespace, of.product
	r.readRemote(ctx)
	isDue, err := r.isStartDue(ctx)
	refused, isRefused := errors.AsType[*refusal.Refusal](err)
	_, isEarly := errors.AsType[notReadyError](err)
	switch {
	// No flow is for this commit: that is what the selectors of the Product are for.
	case isEarly || isRefused && refused.Field == fieldFlow:
		return r.again, nil
	case err != nil:
		if ctx.Err() == nil && of.reported != err.Error() {
			of.reported = err.Error()
			r.reportStart(ctx, err)
		}
		// Something has to be changed, which makes it due.
		if isRefused {
			return r.again, nil
		}
		return r.again, err
	}
	of.reported = ""
	if !isDue {
		return r.again, nil
	}
	return r.again, r.createPromotion(ctx)
}

// hasPromotion reports whether a Product has a Promotion that has not ended.
func (c *Controller) hasPromotion(product string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.jobs {
		if one.product == product {
			return true
		}
	}
	return false
}

// lastValues is the digest of what the newest Promotion of a Product promoted; empty if
// there is none.
func (c *Controller) lastValues(product string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var last endedPromotion
	for _, one := range c.ended {
		if one.product == product && cmp.Or(one.started.Compare(last.started), cmp.Compare(one.name, last.name)) > 0 {
			last = one
		}
	}
	return last.values
}

// isStartDue reports whether the values of the source are new for an environment.
func (r *run) isStartDue(ctx context.Context) (bool, error) {
	if err := r.plan(ctx); err != nil {
		return false, err
	}
	status := &r.promotion.Status
	if values := status.Source.Values; values == r.record.started || values == r.lastValues(r.record.product) {
		return false, nil
	}
	from, err := r.sourceReader(ctx)
	if err != nil {
		return false, err
	}
	for i := range status.Steps {
		targets, err := r.targets(ctx, &status.Steps[i])
		if err != nil {
			return false, err
		}
		for _, one := range targets {
			revision := one.app.Status.Sync.Revision
			// An Application that is new may get the values by itself.
			if revision == "" {
				return false, nil
			}
			to, err := r.readerAt(ctx, &one.place, revision)
			if err != nil {
				return false, err
			}
			missing, err := one.template.copy(from, to, nil)
			if err != nil || len(missing) > 0 {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// createPromotion creates the Promotion of a plan. Its name is made of the commit, so
// that another process, or this one after a kill, does not create a second one.
func (r *run) createPromotion(ctx context.Context) error {
	status := &r.promotion.Status
	requests := Requests{Promotions: r.options.Cluster.Dynamic.Resource(promotionResource()).Namespace(r.options.ControlNamespace), Manager: "slipway-promotions"}
	name, err := requests.Start(ctx, r.record.product, status.Flow, fmt.Sprintf("%s-%.12s", r.record.product, status.Source.Revision), automaticBy)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the Promotion %s: %w", name, err)
	}
	r.record.started = status.Source.Values
	r.options.Log.Info("promotion started by itself", "promotion", name, "product", r.record.product, "version", status.Version)
	return nil
}

// reportStart writes why no Promotion of a Product begins, which no Promotion can tell.
func (r *run) reportStart(ctx context.Context, reason error) {
	r.options.Log.Warn("no promotion begins by itself", "product", r.record.product, observe.KeyError, reason)
	regarding := corev1.ObjectReference{APIVersion: v1beta1.APIVersion, Kind: v1beta1.KindProduct, Namespace: r.options.ControlNamespace, Name: r.record.product}
	if known := r.catalog.products[r.record.product].object; known != nil {
		regarding.UID = known.UID
	}
	r.notify(ctx, kube.Notice{Regarding: regarding, Action: "Promote", Warning: true, Reason: ReasonNotStarted, Note: refusal.Shorten(reason.Error(), maxMessage)})
}

// ReasonNotStarted is the reason of Events of Products whose promotions cannot begin by
// themselves.
const ReasonNotStarted = "PromotionNotStarted"
