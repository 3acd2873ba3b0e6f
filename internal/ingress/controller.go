package ingress

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/status"
	"slipway.dev/slipway/internal/ingress/watch"
	"slipway.dev/slipway/internal/route"
)

// Options configure a Controller.
type Options struct {
	Resolve resolve.Options
	// Node is the name of the node that this replica runs on; empty when unknown.
	Node string
	// Zone is called with the zone of that node before the first change; it may
	// be nil.
	Zone func(string)
	// Throttle is the least time between two changes of the table; 0 for none.
	Throttle time.Duration
	// PublishedService is the namespace/name of the Service whose addresses are
	// published in the status; empty for none.
	PublishedService string
	// Apply applies a change to the edge and returns what it could not serve.
	Apply func(*route.Change) Feedback
	// Live is called once, when the first table is applied.
	Live func()
	// Refused is called with all refusals when they have changed; it may be nil.
	Refused func([]refusal.Refusal)
	// Gateways writes the status of objects of Gateway API; nil if they are not
	// served.
	Gateways *status.GatewayWriter
	// Certificates issues certificates; nil without a resolver.
	Certificates CertificateManager
	Metrics      *Metrics
	Log          *slog.Logger
}

// CertificateManager gets the certificates that Ingresses request, and the tokens of
// the challenges that this replica serves. Its methods must not block.
type CertificateManager interface {
	SetRequests([]certrequest.Request)
	SetServedChallenges(tokens []string)
}

// Feedback has the parts of a change that the edge could not apply.
type Feedback struct {
	Problems []route.Problem
	// CertificatesChanged is set if Certificates has changed; it is complete then.
	// The field of each is the host, empty for the whole certificate.
	CertificatesChanged bool
	Certificates        []refusal.Refusal
}

// Controller keeps the table of the edge in step with a cluster. One goroutine
// runs its loop and owns Snapshot and Engine, so neither needs a lock. The loop
// passes three states: listing (the first lists are incomplete), completing (the
// objects that Ingresses name are being read), live.
type Controller struct {
	options  Options
	watcher  *watch.Watcher
	writer   *status.Writer
	snapshot *snapshot.Snapshot
	engine   *engine.Engine

	// changed are the objects that have not been resolved yet, and received is
	// when the oldest of them arrived.
	changed  []snapshot.Ref
	received time.Time
	// statusPending are the Ingresses that the writer has not got yet: their
	// ownership is known only when they are resolved.
	statusPending map[snapshot.Ref]struct{}
	// gatewaysSeen are the objects of Gateway API with a new version that the writer
	// has not got yet.
	gatewaysSeen map[snapshot.Ref]struct{}
	// first collects the changes until the first table is complete, so that it is
	// applied at once: the last-good table may be live meanwhile, and must not be
	// replaced by one that is half read. It is nil afterwards.
	first     *route.Index
	live      bool
	appliedAt time.Time // when the last change was applied
	// validityCheckedAt is when certificates were last checked for expiry.
	validityCheckedAt time.Time
	// requestsChanged and challengesChanged are set if certificate requests or
	// challenges changed since Certificates got them.
	requestsChanged, challengesChanged bool

	// defaults are new ones of ingress-nginx's Ingresses that the loop has not taken yet.
	defaults atomic.Pointer[nginx.Settings]
}

// SetNGINXDefaults sets the defaults of ingress-nginx's Ingresses, those of a ConfigMap. It
// may be called from any goroutine; the loop applies them.
func (c *Controller) SetNGINXDefaults(defaults *nginx.Settings) {
	c.defaults.Store(defaults)
	c.watcher.Wake()
}

// takeDefaults applies new defaults of ingress-nginx's Ingresses.
func (c *Controller) takeDefaults() {
	if c.defaults.Load() == nil || c.options.Resolve.NGINX == nil {
		return
	}
	c.options.Resolve.NGINX.Defaults = c.defaults.Swap(nil)
	if c.engine == nil {
		return // it starts with them
	}
	if len(c.changed) == 0 {
		c.received = time.Now()
	}
	c.changed = append(c.changed, c.engine.NGINXObjects()...)
}

// New returns a Controller that reads from a watcher and reports to a writer.
func New(watcher *watch.Watcher, writer *status.Writer, options Options) *Controller {
	return &Controller{
		options: options, watcher: watcher, writer: writer, snapshot: snapshot.New(), statusPending: map[snapshot.Ref]struct{}{}, gatewaysSeen: map[snapshot.Ref]struct{}{}, first: route.NewIndex(),
	}
}

// Run processes events until the context is done.
func (c *Controller) Run(ctx context.Context) error {
	for {
		events, err := c.next(ctx)
		if err != nil {
			return err
		}
		c.applyEvents(events)
		c.takeDefaults()
		c.checkValidity()
		if c.live {
			if err := c.throttle(ctx); err != nil {
				return err
			}
		}
		c.update()
	}
}

// validityInterval is how often certificates are checked for expiry. A minute is
// enough: expiry is known months before.
const validityInterval = time.Minute

// next returns the next events, or none when a check of certificates is due.
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

// checkValidity adds the certificates that became valid or expired.
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

// throttle waits until the next change may be applied, and merges the events that
// arrive meanwhile.
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

// applyEvents applies events to the snapshot, and passes on those that the writer
// needs.
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

// observePut passes a new or changed object to the writer, if it needs it. It
// reports whether it is a node: nodes are passed on once for all events.
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
	default:
		if ref, ok := snapshot.GatewayRef(object); ok {
			c.gatewaysSeen[ref] = struct{}{}
		}
	}
	return false
}

func (c *Controller) observeDelete(ref snapshot.Ref) bool {
	switch {
	case ref.Kind == snapshot.Ingress:
		c.writer.Gone(ref.Namespace, ref.Name)
	case c.options.Gateways != nil && ref.Kind.Custom():
		delete(c.gatewaysSeen, ref)
		c.options.Gateways.Gone(ref)
	case ref.Kind == snapshot.Service && ref.Namespace+"/"+ref.Name == c.options.PublishedService:
		c.writer.Published(nil)
	}
	return ref.Kind == snapshot.Node
}

// update runs an update pass for the changed objects and applies its result. Before
// the first lists are complete it does nothing, and until everything that
// Ingresses name is read it only collects.
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
	c.updateGateways()
	c.reportRefusals()
}

// State returns snapshot and engine, for lint and explain. It must not be called
// before Run has returned.
func (c *Controller) State() (*snapshot.Snapshot, *engine.Engine) { return c.snapshot, c.engine }

// startEngine creates the engine once the nodes are listed: the zone of this
// replica is one of its options.
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

// apply applies a change to the edge and records the problems it returns.
func (c *Controller) apply(change *route.Change) {
	if change.Empty() {
		return
	}
	began := time.Now()
	feedback := c.options.Apply(change)
	c.appliedAt = time.Now()
	c.options.Metrics.applied(c.received, began)
	c.engine.NoteRules(change, feedback.Problems)
	c.engine.NoteListeners(change, feedback.Problems)
	if feedback.CertificatesChanged {
		c.engine.NoteCertificates(feedback.Certificates)
	}
}

// goLive reports that the first table is applied.
func (c *Controller) goLive() {
	c.live = true
	c.validityCheckedAt = time.Now()
	c.requestsChanged = true // also without requests: unused certificates are swept then
	c.options.Live()
	namespace, name, _ := strings.Cut(c.options.PublishedService, "/")
	if name != "" && c.snapshot.View().Service(namespace, name) == nil {
		c.writer.Published(nil)
	}
}

// updateCertificates passes on the certificate requests and the challenges that are
// served now.
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

// updateStatus passes Ingresses to the writer that changed, that began or ceased to
// be ours, or whose condition changed. It runs after apply, so a status never
// reports an Ingress as served before it is.
func (c *Controller) updateStatus() {
	for ref := range c.engine.ChangedConditions() {
		c.statusPending[ref] = struct{}{}
	}
	for ref := range c.statusPending {
		delete(c.statusPending, ref)
		if object := c.snapshot.Ingress(ref.Namespace, ref.Name); object != nil {
			if c.engine.AsNGINX(ref) {
				c.writer.SharedIngress(object, c.engine.Condition(ref))
				continue
			}
			c.writer.Ingress(object, c.engine.Ours(ref), c.engine.Condition(ref))
		}
	}
}

// updateGateways passes the status of objects of Gateway API to the writer. It runs
// after updateStatus, which finds the routes whose refusals changed.
func (c *Controller) updateGateways() {
	if c.options.Gateways == nil {
		return
	}
	// Everything that was read is applied now.
	c.options.Gateways.SetServed(c.watcher.Versions())
	for ref := range c.gatewaysSeen {
		c.engine.MarkStale(ref)
	}
	// A new map: the first one is as large as the cluster.
	c.gatewaysSeen = map[snapshot.Ref]struct{}{}
	for ref, wanted := range c.engine.ChangedGatewayStatuses() {
		c.options.Gateways.Set(ref, c.snapshot.GatewayObject(ref), wanted)
	}
}

// reportRefusals passes on the objects whose refusals changed, and then all
// refusals to metrics and the admin API.
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
		for _, refused := range refusals {
			c.options.Log.Debug("refused", "object", object.String(), "field", refused.Field, "reason", refused.Reason, "message", refused.Message)
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
