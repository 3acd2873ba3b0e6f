package ingress

import (
	"context"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/status"
	"slipway.dev/slipway/internal/ingress/watch"
	"slipway.dev/slipway/internal/route"
)

// Options are what a Controller needs.
type Options struct {
	Resolve resolve.Options
	// Node is the name of the node that this replica runs on; empty when unknown.
	Node string
	// Zone is told the zone of that node before the first change; it may be nil.
	Zone func(string)
	// Throttle is the shortest time between two changes of the table.
	Throttle time.Duration
	// PublishedService is namespace/name of the Service whose addresses the
	// status has; empty for none.
	PublishedService string
	// Apply puts a change in place.
	Apply func(*route.Change) Feedback
	// Live is called once, when the first table is in place.
	Live func()
	// Refused is told of everything that is refused, when that has changed; nil is
	// nobody.
	Refused func([]snapshot.Refusal)
	// Certificates fetches certificates; nil where none are.
	Certificates CertificateManager
	Metrics      *Metrics
	Log          *slog.Logger
}

// CertificateManager is told which certificates Ingresses wish for, and which challenges of
// authorities this replica answers. It does not wait.
type CertificateManager interface {
	SetRequests([]certrequest.Request)
	SetServedChallenges(tokens []string)
}

// Feedback is what of a change is not served as it was asked for.
type Feedback struct {
	Problems []route.Problem
	// CertificatesChanged says that Certificates has all problems there are now.
	CertificatesChanged bool
	Certificates        []engine.CertificateProblem
}

// Controller follows a cluster. Its loop is in one of three states: listing
// (not everything has been read once), completing (what the Ingresses name is
// being read), following.
type Controller struct {
	options  Options
	watcher  *watch.Watcher
	writer   *status.Writer
	snapshot *snapshot.Snapshot
	engine   *engine.Engine

	// changed is what has not been resolved yet, and received when the oldest
	// of it came.
	changed  []snapshot.Ref
	received time.Time
	// statusPending are the Ingresses that the writer has not been told of: whose they
	// are is known when they are resolved.
	statusPending map[snapshot.Ref]struct{}
	// first gathers what is resolved before the first table is in place, so that
	// it is said to the edge at once: what was served last may be live meanwhile,
	// and must not give way to something that is half read.
	first     *route.Book
	live      bool
	appliedAt time.Time // when the edge was told last
	// validityCheckedAt is when the certificates were last looked at for what time does.
	validityCheckedAt time.Time
	// requestsChanged and asked are set when the requests and the challenges have changed
	// since the Fetcher was told of them.
	requestsChanged, challengesChanged bool
}

// New gives a Controller that reads by a watcher and writes back by a writer.
func New(watcher *watch.Watcher, writer *status.Writer, options Options) *Controller {
	return &Controller{
		options: options, watcher: watcher, writer: writer, snapshot: snapshot.New(), statusPending: map[snapshot.Ref]struct{}{}, first: route.NewBook(),
	}
}

// Run follows the cluster until ctx is done.
func (c *Controller) Run(ctx context.Context) error {
	for {
		events, err := c.next(ctx)
		if err != nil {
			return err
		}
		c.applyEvents(events)
		c.checkValidity()
		if c.live {
			if err := c.throttle(ctx); err != nil {
				return err
			}
		}
		c.update()
	}
}

// validityInterval is how often certificates are looked at for what time does to
// them. What comes so late has been announced for months.
const validityInterval = time.Minute

// next gives what has changed; nothing, when it is time to look at certificates.
func (c *Controller) next(ctx context.Context) ([]watch.Event, error) {
	if !c.live {
		return c.watcher.Next(ctx)
	}
	until, cancel := context.WithDeadline(ctx, c.validityCheckedAt.Add(validityInterval))
	defer cancel()
	events, err := c.watcher.Next(until)
	if err != nil && ctx.Err() == nil && until.Err() != nil {
		return nil, nil
	}
	return events, err
}

// checkValidity adds what has changed by time alone.
func (c *Controller) checkValidity() {
	now := time.Now()
	if !c.live || now.Sub(c.validityCheckedAt) < validityInterval {
		return
	}
	c.validityCheckedAt = now
	turned := c.engine.ValidityChanged(now)
	if len(turned) > 0 && len(c.changed) == 0 {
		c.received = now
	}
	c.changed = append(c.changed, turned...)
}

// throttle waits until the edge may be told again, and takes what comes meanwhile.
func (c *Controller) throttle(ctx context.Context) error {
	left := time.Until(c.appliedAt.Add(c.options.Throttle))
	if c.options.Throttle == 0 || left <= 0 || len(c.changed) == 0 {
		return nil
	}
	until, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	for until.Err() == nil {
		events, err := c.watcher.Next(until)
		if err != nil {
			break
		}
		c.applyEvents(events)
	}
	return ctx.Err()
}

// applyEvents puts events into the snapshot, and tells the writer of what it writes
// about.
func (c *Controller) applyEvents(events []watch.Event) {
	nodes := false
	for i := range events {
		event := &events[i]
		var refs []snapshot.Ref
		switch {
		case event.Put != nil:
			refs = c.snapshot.Put(event.Put)
			nodes = c.observePut(event.Put) || nodes
		case event.Kind != "":
			refs = c.snapshot.SetKind(event.Kind, event.State)
		default:
			refs = c.snapshot.Delete(event.Delete.Kind, event.Delete.Namespace, event.Delete.Name)
			nodes = c.observeDelete(event.Delete) || nodes
		}
		if len(refs) > 0 && len(c.changed) == 0 {
			c.received = event.At
		}
		c.changed = append(c.changed, refs...)
	}
	if nodes {
		c.writer.Nodes(c.snapshot.View().Nodes())
	}
}

// observePut passes an object on to the writer. It reports whether it is a node.
func (c *Controller) observePut(object any) bool {
	switch o := object.(type) {
	case *networkingv1.Ingress:
		c.statusPending[snapshot.Ref{Kind: snapshot.Ingress, Namespace: o.Namespace, Name: o.Name}] = struct{}{}
	case *corev1.Service:
		if o.Namespace+"/"+o.Name == c.options.PublishedService {
			c.writer.Published(o)
		}
	case *snapshot.NodeFacts:
		return true
	}
	return false
}

func (c *Controller) observeDelete(ref snapshot.Ref) bool {
	switch {
	case ref.Kind == snapshot.Ingress:
		c.writer.Gone(ref.Namespace, ref.Name)
	case ref.Kind == snapshot.Service && ref.Namespace+"/"+ref.Name == c.options.PublishedService:
		c.writer.Published(nil)
	}
	return ref.Kind == snapshot.Node
}

// update resolves what changed and says it to the edge, if it is time to.
func (c *Controller) update() {
	if !c.live && !c.watcher.Listed() {
		return
	}
	if c.engine == nil {
		c.startEngine()
	}
	change := route.Change{}
	if len(c.changed) > 0 {
		result := c.engine.Update(c.changed)
		c.changed = c.changed[:0]
		c.watcher.Want(result.Wanted, result.Unwanted)
		change = result.Change
		c.requestsChanged = c.requestsChanged || result.RequestsChanged
		c.challengesChanged = c.challengesChanged || result.TokensChanged
		for _, ref := range result.OwnershipChanged {
			c.statusPending[ref] = struct{}{}
		}
	}
	if !c.live {
		c.first.Apply(c.first.Fit(&change))
		if !c.watcher.Synced() {
			return
		}
		change = route.Diff(nil, c.first.Table())
		c.first = nil
	}
	c.apply(&change)
	if !c.live {
		c.goLive()
	}
	c.updateCertificates()
	c.updateStatus()
	c.reportRefusals()
}

// State gives what is known of the cluster and what follows from it. It is for
// who asks after Run has returned.
func (c *Controller) State() (*snapshot.Snapshot, *engine.Engine) { return c.snapshot, c.engine }

// startEngine makes the engine, when everything that it is made with is known.
func (c *Controller) startEngine() {
	resolving := c.options.Resolve
	for _, node := range c.snapshot.View().Nodes() {
		if node.Name == c.options.Node {
			resolving.Zone = node.Zone
			if c.options.Zone != nil {
				c.options.Zone(node.Zone)
			}
		}
	}
	c.engine = engine.New(c.snapshot, resolving)
}

// apply says a change to the edge and notes what became of it.
func (c *Controller) apply(change *route.Change) {
	if change.Empty() {
		return
	}
	began := time.Now()
	feedback := c.options.Apply(change)
	c.appliedAt = time.Now()
	c.options.Metrics.applied(c.received, began)
	c.engine.NoteRules(change, feedback.Problems)
	if feedback.CertificatesChanged {
		c.engine.NoteCertificates(feedback.Certificates)
	}
}

// goLive says that the first table is in place.
func (c *Controller) goLive() {
	c.live = true
	c.validityCheckedAt = time.Now()
	c.requestsChanged = true // none is something to know too
	c.options.Live()
	namespace, name, _ := strings.Cut(c.options.PublishedService, "/")
	if name != "" && c.snapshot.View().Service(namespace, name) == nil {
		c.writer.Published(nil)
	}
}

// updateCertificates passes on what is requested for, and which answers are in place now.
func (c *Controller) updateCertificates() {
	if c.options.Certificates == nil {
		return
	}
	if c.challengesChanged {
		c.options.Certificates.SetServedChallenges(c.engine.Tokens())
	}
	if c.requestsChanged {
		c.options.Certificates.SetRequests(c.engine.Requests())
	}
	c.challengesChanged, c.requestsChanged = false, false
}

// updateStatus tells the writer of Ingresses that changed, that began or ceased to
// be ours, or whose condition is another. The edge has been told by then: who
// reads in a status that all is well can send requests.
func (c *Controller) updateStatus() {
	for ref := range c.engine.ChangedConditions() {
		c.statusPending[ref] = struct{}{}
	}
	for ref := range c.statusPending {
		delete(c.statusPending, ref)
		if object := c.snapshot.Ingress(ref.Namespace, ref.Name); object != nil {
			c.writer.Ingress(object, c.engine.Ours(ref), c.engine.Condition(ref))
		}
	}
}

// reportRefusals passes on what is refused now and was not before, or the other
// way round.
func (c *Controller) reportRefusals() {
	changed := false
	for object, refusals := range c.engine.ChangedRefusals() {
		changed = true
		uid := c.snapshot.UID(object)
		if len(refusals) == 0 {
			uid = ""
		}
		c.writer.Identify(object, uid)
		c.writer.Refusals(object, refusals)
		for _, refusal := range refusals {
			c.options.Log.Debug("something is refused", "object", object.String(), "field", refusal.Field, "reason", refusal.Reason, "message", refusal.Message)
		}
	}
	if !changed {
		return
	}
	all := c.engine.Refusals()
	c.options.Metrics.refused(all)
	if c.options.Refused != nil {
		c.options.Refused(all)
	}
}
