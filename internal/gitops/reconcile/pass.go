package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// refreshHard is the value of the refresh annotation that has everything
// rendered again. Any other is as normal: Git is asked now.
const refreshHard = "hard"

// pass is one look at an Application.
type pass struct {
	*Controller
	id      tracking.App
	entry   *entry
	session *session
	// app is how the Application is now; writing it replaces it.
	app     *v1alpha1.Application
	refused []v1alpha1.Refused
	reasons reason
	now     time.Time
	log     *slog.Logger

	// to is the cluster that the Application is for, and astray why that is not
	// known; to is then the one that the Application is in.
	to     *Destination
	astray *v1alpha1.Refused
	// refresh is the value of the annotation; empty if it is not there.
	refresh string
	// project, ignore and applier are those of the Application, once it was
	// judged.
	project *project.Project
	ignore  *plan.Ignore
	applier *apply.Applier
	// fresh says that something was rendered, and print is the fingerprint of
	// what is live.
	fresh bool
	print string
	// skipped says that there was nothing to look at, and pending that the
	// repository has to be looked at first.
	skipped bool
	pending bool
	// closed says that an operation ended.
	closed bool
	// dropped is a request that is refused because an operation runs.
	dropped *v1alpha1.Operation
	// problem is for the condition SyncError.
	problem string
	// again is when something has to be looked at.
	again time.Time
}

// reconcile makes one pass over an Application.
func (c *Controller) reconcile(ctx context.Context, id tracking.App, why reason) {
	found, app, refused := c.book.get(id)
	if found == nil {
		return
	}
	p := &pass{
		Controller: c, id: id, entry: found, session: &found.session, app: app, refused: refused, reasons: why,
		now: c.Now(), log: c.Log.With("application", id.String()), refresh: app.Annotations[refreshAnnotation],
	}
	p.to, p.astray = c.locate(app.Spec.Destination)
	p.session.arrive(p.to)
	began := time.Now()
	err := p.safely(ctx)
	c.Metrics.reconciled(time.Since(began))
	switch {
	case ctx.Err() != nil, errors.Is(err, errGone):
		return
	case err != nil:
		p.session.seen = ""
		p.session.failures++
		p.again = earliest(p.again, c.Now().Add(pause(p.session.failures)))
		p.log.Warn("the application has to be looked at again", "error", err)
	case p.skipped:
		return // the time that was set stays
	}
	c.queue.at(task{app: id}, becauseTime, p.again)
}

// safely makes the pass, and keeps what panics in it from taking all
// Applications down.
func (p *pass) safely(ctx context.Context) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("a mistake of the program: %v", fault)
			p.log.Error("a pass panicked", "fault", fault, "stack", string(debug.Stack()))
		}
	}()
	if p.app.DeletionTimestamp != nil {
		return p.remove(ctx)
	}
	return p.run(ctx)
}

// run is the way of a pass.
func (p *pass) run(ctx context.Context) error {
	if p.unmoved() {
		p.skipped = true
		return nil
	}
	p.prepareSession()
	calm := p.session.trouble == nil && p.session.seen != "" && !p.isOperating()
	trouble := p.judge()
	if trouble == nil {
		trouble = p.want(ctx)
		sameFiles := trouble == nil && calm && !p.fresh && p.refresh == "" && p.reasons.only(becauseSource)
		p.pending = errors.Is(trouble, errPending)
		if p.skipped = sameFiles || p.pending && (!p.isOperating() || p.session.rendering == nil); p.skipped {
			return nil
		}
	}
	seen, err := p.observe(ctx, p.comparable())
	if trouble == nil {
		trouble = err
	}
	acted, failure := p.operate(ctx, seen, trouble)
	if failure != nil {
		return failure
	}
	if acted {
		if seen, err = p.observe(ctx, p.comparable()); trouble == nil {
			trouble = err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if p.pending {
		trouble = p.session.trouble
	} else if trouble == nil {
		p.lookAhead(seen)
	}
	return p.conclude(ctx, seen, trouble)
}

// prepareSession forgets what the Application as it is now may have changed.
func (p *pass) prepareSession() {
	if p.reasons&becauseAsked != 0 {
		p.session.matched = nil
	}
	switch {
	case p.refresh == "":
		p.session.refreshing = time.Time{}
	case p.session.refreshing.IsZero():
		p.session.refreshing = p.now
	}
}

// comparable is what can be compared with the cluster; nil for an Application
// that is refused, or of which nothing was rendered yet.
func (p *pass) comparable() *rendering {
	if p.applier == nil {
		return nil
	}
	return p.session.rendering
}

// unmoved reports whether the pass is only for events of objects, and these are
// as they were: most events are the echo of our own writes.
func (p *pass) unmoved() bool {
	return p.reasons.only(becauseLive) && p.session.seen != "" && !p.isOperating() && fingerprint(p.to.Live.Of(p.id)) == p.session.seen
}

func (p *pass) isOperating() bool {
	state := p.state()
	return p.session.unsaved != nil || state != nil && !state.Phase.Completed()
}

// judge says whether the Application asks for something that we do, and makes
// what follows from its project.
func (p *pass) judge() error {
	var refused []v1alpha1.Refused
	for _, one := range p.refused {
		if !ofOperation(one) {
			refused = append(refused, one)
		}
	}
	if p.astray != nil {
		refused = append(refused, *p.astray)
	}
	name := p.app.Spec.ProjectName()
	charter := p.book.charter(name)
	switch {
	case charter == nil:
		refused = append(refused, v1alpha1.Refused{Field: "spec.project", Reason: v1alpha1.ReasonInvalid, Message: fmt.Sprintf(
			"there is no AppProject %s in namespace %s: make it, or name one of %s", name, p.ControlNamespace, p.projectList())})
	case len(charter.refused) > 0:
		refused = append(refused, v1alpha1.Refused{Field: "spec.project", Reason: v1alpha1.ReasonInvalid,
			Message: fmt.Sprintf("the AppProject %s is refused: %s", name, v1alpha1.Summary(charter.refused))})
	default:
		p.project = charter.project
		refused = append(refused, charter.project.Check(p.located(), p.ControlNamespace)...)
	}
	ignore, err := plan.NewIgnore(ignoreRules(&p.app.Spec), p.paths)
	if err != nil {
		refused = append(refused, v1alpha1.Refused{Field: "spec.ignoreDifferences", Reason: v1alpha1.ReasonInvalid, Message: err.Error()})
	}
	p.ignore = ignore
	if len(refused) > 0 {
		return &invalid{refused}
	}
	return p.impersonate()
}

func ofOperation(refused v1alpha1.Refused) bool {
	return refused.Field == "operation" || strings.HasPrefix(refused.Field, "operation.") || strings.HasPrefix(refused.Field, "operation[")
}

// located is the Application with the cluster that it means, by address.
func (p *pass) located() *v1alpha1.Application {
	located := *p.app
	located.Spec.Destination = p.destination()
	return &located
}

func (p *pass) destination() v1alpha1.ApplicationDestination {
	return v1alpha1.ApplicationDestination{Server: p.to.Server, Name: p.to.Name, Namespace: p.app.Spec.Destination.Namespace}
}

func (p *pass) projectList() string {
	names := p.book.projectNames()
	if !slices.Contains(names, v1alpha1.DefaultProject) {
		names = append(names, v1alpha1.DefaultProject)
	}
	slices.Sort(names)
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}

// impersonate finds whose rights objects are applied with.
func (p *pass) impersonate() error {
	p.applier = p.to.Applier
	namespace, name, ok := p.project.ServiceAccount(p.destination())
	if !ok {
		return nil
	}
	namespace = cmp.Or(namespace, p.id.Namespace)
	applier, err := p.to.Applier.As(apply.Impersonation{Namespace: namespace, ServiceAccount: name})
	if err != nil {
		return fmt.Errorf("act as the ServiceAccount %s/%s: %w", namespace, name, err)
	}
	p.applier = applier
	return nil
}

func (p *pass) tracker() tracking.Tracker {
	return tracking.Tracker{ControlNamespace: p.ControlNamespace}
}

// ownKey is the Application itself, as an object.
func (p *pass) ownKey() tracking.Key {
	return tracking.Key{Group: v1alpha1.Group, Kind: v1alpha1.KindApplication, Namespace: p.id.Namespace, Name: p.id.Name}
}

// state is that of the last operation, or of the one that runs; nil if there was
// none.
func (p *pass) state() *v1alpha1.OperationState {
	if p.session.unsaved != nil {
		return p.session.unsaved.state
	}
	return p.app.Status.OperationState
}

func (p *pass) history() []v1alpha1.RevisionHistory {
	if p.session.unsaved != nil {
		return p.session.unsaved.history
	}
	return p.app.Status.History
}

// requested is the operation that somebody asks for; nil if nobody does, or if
// it was taken up.
func (p *pass) requested() *v1alpha1.Operation {
	if unsaved := p.session.unsaved; unsaved != nil && unsaved.consumed != nil && equalOperations(unsaved.consumed, p.app.Operation) {
		return nil
	}
	return p.app.Operation
}

// tell announces something about the Application.
func (p *pass) tell(warning bool, what, note string) {
	p.announcer.tell(kube.Notice{
		Regarding: reference(p.app), Warning: warning, Reason: what, Action: "Reconcile", Note: note, Times: 1,
	})
}
