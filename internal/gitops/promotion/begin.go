package promotion

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/codefresh/v1beta1"
	"slipway.dev/slipway/api/refusal"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/source"
)

// defaultLimit is how long a promotion may take if its flow has no limit, as Codefresh
// has it.
const defaultLimit = 24

// notReadyError is why a Promotion does not begin yet. It is no mistake of a person, so
// that there is no Event: the message of the Promotion has the reason.
type notReadyError struct{ error }

// begin decides what a Promotion does and records it. Nothing is written to Git before
// all of it was checked: a promotion that stops in production because of a misspelt path
// leaves two environments with different versions.
func (r *run) begin(ctx context.Context) error {
	r.beginning.Lock()
	defer r.beginning.Unlock()
	err := r.plan(ctx)
	status := &r.promotion.Status
	if err == nil {
		status.Phase, status.StartedAt = slipway.PromotionProgressing, r.time()
		r.condition(false, slipway.PromotionProgressing, "")
		r.summarize()
		if err := r.save(ctx); err != nil {
			return err
		}
		r.markBegun()
		r.announce(ctx, false, "PromotionStarted", fmt.Sprintf("%s of %s at %.12s begins, with the flow %s", status.Version, status.Source.Application, status.Source.Revision, status.Flow))
		return nil
	}
	// Errors of servers are neither: the run is repeated, and the status stays.
	_, isRefused := errors.AsType[*refusal.Refusal](err)
	_, isEarly := errors.AsType[notReadyError](err)
	if !isRefused && !isEarly {
		return err
	}
	// Nothing of a plan that failed counts.
	*status = slipway.PromotionStatus{Phase: slipway.PromotionPending, Message: refusal.Shorten(err.Error(), maxMessage), Conditions: status.Conditions}
	reason := "Waiting"
	if isRefused {
		reason = "Refused"
	}
	r.condition(false, reason, err.Error())
	if err := r.save(ctx); err != nil {
		return err
	}
	// A repeated refusal is one Event; the condition shows that it is still there.
	if isRefused && r.record.reported != err.Error() {
		r.record.reported = err.Error()
		r.announce(ctx, true, "PromotionRefused", err.Error())
	}
	return nil
}

// markBegun lets other Promotions of the Product wait for this one.
func (r *run) markBegun() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record.begun, r.record.reported = true, ""
}

// plan fills the status with what the Promotion does. Its errors are refusals, what is
// waited for, and failures that are tried again.
func (r *run) plan(ctx context.Context) error {
	// Before anything is read: most Promotions that wait do so for this reason.
	if other := r.otherPromotion(); other != "" {
		return notReadyError{fmt.Errorf("it waits for the Promotion %s of the same Product", other)}
	}
	product, err := lookUp(r.catalog.products, v1beta1.KindProduct, r.promotion.Spec.Product)
	if err != nil {
		return err
	}
	flow, err := r.catalog.flowFor(product, r.promotion.Spec.Flow, func(trigger string) (*source.Commit, error) { return r.sourceCommit(ctx, product, trigger) })
	if err != nil {
		return err
	}
	app, err := r.sourceApplication(product, flow.Spec.TriggerEnvironment)
	if err != nil {
		return err
	}
	status := &r.promotion.Status
	status.Flow, status.Steps = flow.Name, nil
	status.Source = &slipway.PromotionSource{
		Environment: flow.Spec.TriggerEnvironment, Namespace: app.Namespace, Application: app.Name, Revision: app.Status.Sync.Revision,
	}
	// The deadline is recorded: a flow that is changed meanwhile does not change the run.
	limit := int64(defaultLimit)
	if given := flow.Spec.PromotionTimeoutLimit; given != nil {
		limit = *given
	}
	status.DeadlineAt = &metav1.Time{Time: r.time().Add(time.Duration(limit) * time.Hour)}
	for i := range flow.Spec.Steps {
		step, err := r.planStep(product, &flow.Spec.Steps[i])
		if err != nil {
			return err
		}
		status.Steps = append(status.Steps, step)
	}
	return r.check(ctx, product)
}

// otherPromotion is a Promotion of the Product that has begun; empty if there is none.
func (r *run) otherPromotion() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, one := range r.jobs {
		if one.begun && one.product == r.promotion.Spec.Product && name != r.promotion.Name {
			return name
		}
	}
	return ""
}

// sourceApplication is the Application that values are read from. It has to be Synced
// and Healthy.
func (r *run) sourceApplication(product *v1beta1.Product, trigger string) (*v1alpha1.Application, error) {
	environment, err := r.catalog.environment(trigger)
	if err != nil {
		return nil, err
	}
	if err := r.catalog.readable(environment); err != nil {
		return nil, err
	}
	// With two of them it would be a matter of chance which version is promoted.
	found := r.catalog.applications(product.Name, environment)
	if len(found) != 1 {
		return nil, refusal.New("spec.product", refusal.Conflict, "the trigger environment %s has %d Applications with the label %s: %s, and has to have one",
			trigger, len(found), v1beta1.LabelProduct, product.Name)
	}
	if reason := unready(found[0]); reason != "" {
		return nil, notReadyError{fmt.Errorf("the source %s", reason)}
	}
	return found[0], nil
}

// unready is why an Application does not have its revision completely; empty if it has.
func unready(app *v1alpha1.Application) string {
	switch {
	// While it is held, Synced is about another revision than the one in Git.
	case app.Status.Held != nil:
		return fmt.Sprintf("%s is held at another revision: %s", app.Name, app.Status.Held.Message)
	case app.Status.Sync.Status != v1alpha1.SyncSynced:
		return fmt.Sprintf("%s is %s", app.Name, orUnknown(string(app.Status.Sync.Status)))
	case app.Status.Health.Status != v1alpha1.Healthy:
		return fmt.Sprintf("%s is %s", app.Name, orUnknown(string(app.Status.Health.Status)))
	}
	return ""
}

// orUnknown names a status that is not there yet.
func orUnknown(text string) string {
	if text == "" {
		return "Unknown"
	}
	return text
}

// sourceCommit is the commit that the source of a flow is synced to.
func (r *run) sourceCommit(ctx context.Context, product *v1beta1.Product, trigger string) (*source.Commit, error) {
	app, err := r.sourceApplication(product, trigger)
	if err != nil {
		return nil, err
	}
	at, err := r.locate(ctx, app)
	if err != nil {
		return nil, err
	}
	given := at.source
	given.TargetRevision = app.Status.Sync.Revision
	admitted, err := at.project.Admit(given)
	if err != nil {
		return nil, err
	}
	return r.options.Sources.Commit(ctx, admitted)
}

// planStep is the status of a step at the beginning.
func (r *run) planStep(product *v1beta1.Product, step *v1beta1.FlowStep) (slipway.PromotionStep, error) {
	made := slipway.PromotionStep{Environment: step.Environment, DependsOn: step.DependsOn, Phase: slipway.StepPending}
	environment, err := r.catalog.environment(step.Environment)
	if err != nil {
		return made, err
	}
	if made.Action, err = r.catalog.action(product.Name, step, environment); err != nil {
		return made, err
	}
	// A window that cannot be read would hold the step for ever, once it is reached.
	if _, err := compileWindows(environment); err != nil {
		return made, err
	}
	if err := checkRemote(environment); err != nil {
		return made, err
	}
	if err := r.catalog.readable(environment); err != nil {
		return made, err
	}
	for _, app := range r.catalog.applications(product.Name, environment) {
		made.Applications = append(made.Applications, keyText(app))
	}
	if len(made.Applications) == 0 {
		return made, refusal.New("spec.product", refusal.NotFound, "the environment %s has no Application with the label %s: %s", step.Environment, v1beta1.LabelProduct, product.Name)
	}
	return made, nil
}

// check compiles the templates of all Applications and reads the source, so that a
// mistake is found before the first environment and not in the last one.
func (r *run) check(ctx context.Context, product *v1beta1.Product) error {
	from, err := r.sourceReader(ctx)
	if err != nil {
		return err
	}
	status := &r.promotion.Status
	digest := sha256.New()
	for i := range status.Steps {
		for _, key := range status.Steps[i].Applications {
			to, err := r.target(ctx, product, key)
			if err != nil {
				return err
			}
			// Without it the refusal would come when the environments before have the version.
			if _, err := to.project.Admit(to.source); err != nil {
				return err
			}
			// The first template with a version names it; people see the commit otherwise.
			if status.Version == "" {
				status.Version = to.template.versionOf(from)
			}
			names := to.template.names()
			if !slices.ContainsFunc(names, func(name string) bool { _, exists, err := from(name); return err == nil && exists }) {
				return refusal.New("spec.promotion", refusal.NotFound, "the source %s has none of the files %v", status.Source.Application, names)
			}
			values, err := to.template.valuesOf(from)
			if err != nil {
				return err
			}
			fmt.Fprintf(digest, "%q: %s", key, values)
		}
	}
	status.Source.Values = fmt.Sprintf("%x", digest.Sum(nil)[:16])
	if status.Version == "" {
		status.Version = fmt.Sprintf("%.12s", status.Source.Revision)
	}
	return nil
}
