package status

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// Options configure the published addresses and the leader election.
type Options struct {
	// IP and Hostname are published as they are, in one entry.
	IP       string
	Hostname string
	// PublishedService is the namespace/name of a Service whose addresses are
	// published. It takes precedence over IP and Hostname. If all three are empty
	// no status is written; Events still are.
	PublishedService string
	// NoNodes is set if nodes are not read. The addresses of a Service of type
	// NodePort are unknown then.
	NoNodes bool
	// Namespaces are those that are watched; empty means all.
	Namespaces []string
	// Selective is set if only Ingresses with certain labels are watched. One that
	// disappears may have lost its label and still exist, with our status.
	Selective bool

	// LeaseNamespace and LeaseName are the Lease that replicas compete for. The
	// name is slipway-edge when it is empty. Installations that serve different
	// classes need different Leases.
	LeaseNamespace string
	LeaseName      string
	// Identity is this replica, such as the name of its Pod. Empty means the host
	// name and a random suffix.
	Identity string

	// Shared is about the Ingresses of SharedIngress.
	Shared Shared

	// WhileLeading runs while this replica leads, and must return when its context
	// is done: the Lease is released after it. It may be nil.
	WhileLeading func(context.Context)

	// Log and Metrics may be nil.
	Log     *slog.Logger
	Metrics *Metrics
}

// reportingController is the reporting controller of Events.
const reportingController = "slipway.dev/edge"

// Writer writes the status of Ingresses and Events about refusals. Its setters
// return at once, and a later call replaces an earlier one. All replicas call
// them, so that each can take over.
type Writer struct {
	cluster  *kube.Cluster
	options  Options
	election kube.Election
	log      *slog.Logger
	metrics  *Metrics
	leading  atomic.Bool

	// apply and announce send the requests. Tests of limits that take minutes
	// replace them.
	apply    func(context.Context, statusWrite) (*networkingv1.Ingress, error)
	announce func(context.Context, kube.Notice) error

	mu           sync.Mutex
	records      map[ingressKey]*statusRecord
	recorders    map[snapshot.Ref]*eventRecorder
	uids         map[snapshot.Ref]types.UID
	service      *corev1.Service
	serviceKnown bool
	nodes        []*snapshot.NodeFacts
	nodesKnown   bool
	published    published
	// term is nil while this replica does not lead.
	term *leadershipTerm

	failures failureLog
}

// New returns a Writer. It sends nothing before Run.
func New(cluster *kube.Cluster, options Options) *Writer {
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	if options.Metrics == nil {
		options.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	options.LeaseName = cmp.Or(options.LeaseName, "slipway-edge")
	options.Identity = cmp.Or(options.Identity, madeIdentity())
	w := &Writer{
		cluster: cluster, options: options, log: options.Log, metrics: options.Metrics,
		records: map[ingressKey]*statusRecord{}, recorders: map[snapshot.Ref]*eventRecorder{}, uids: map[snapshot.Ref]types.UID{},
	}
	w.election = kube.Election{
		Namespace: options.LeaseNamespace, Name: options.LeaseName, Identity: options.Identity,
		Failed: func(err error) {
			w.log.Warn("leader election failed: this replica writes no status and no Events", observe.KeyError, err)
		},
	}
	w.apply = w.applyStatus
	w.announce = func(ctx context.Context, notice kube.Notice) error {
		return cluster.Announce(ctx, kube.Reporter{Controller: reportingController, Instance: options.Identity}, notice)
	}
	w.logAddressProblem(w.updateAddresses())
	return w
}

func madeIdentity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "edge"
	}
	return host + "_" + strings.ToLower(rand.Text()[:10])
}

// Run competes for the Lease and writes while it holds it, until the context is
// done. Then it releases the Lease. The error is about invalid options.
func (w *Writer) Run(ctx context.Context) error {
	return w.cluster.Elect(ctx, w.election, w.lead)
}

// Ingress sets an Ingress as it was last seen, with its status and managed fields,
// whether it is ours, and its condition. It must not be called before ownership
// is resolved: the status of other Ingresses is withdrawn. Call it before Refusals
// of the same Ingress.
func (w *Writer) Ingress(object *networkingv1.Ingress, ours bool, condition engine.Condition) {
	w.setIngress(object, ours, false, condition)
}

// SharedIngress is Ingress for one of ours whose class another controller serves too.
// Options.Shared decides whether its status is written.
func (w *Writer) SharedIngress(object *networkingv1.Ingress, condition engine.Condition) {
	w.setIngress(object, true, true, condition)
}

func (w *Writer) setIngress(object *networkingv1.Ingress, ours, shared bool, condition engine.Condition) {
	at := ingressKey{object.Namespace, object.Name}
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.records[at]
	if known == nil && !ours && !isManaged(object) {
		return
	}
	if known == nil || known.uid != object.UID {
		if events := w.recorders[at.ref()]; known != nil && events != nil {
			events.forgetReported()
		}
		known = &statusRecord{uid: object.UID}
	}
	known.ours, known.shared, known.left = ours, shared, false
	known.observeObject(object)
	known.observe(condition, time.Now())
	if known.idle() {
		delete(w.records, at)
		return
	}
	w.records[at] = known
	if w.term != nil {
		w.term.ingresses.Add(at)
	}
}

// Gone removes an Ingress that was deleted, or that is no longer selected: a leader
// withdraws the status of such a one. All replicas observe it, so the others need
// not keep it.
func (w *Writer) Gone(namespace, name string) {
	at := ingressKey{namespace, name}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.recorders, at.ref())
	known := w.records[at]
	if known != nil && w.options.Selective && w.term != nil {
		known.leave()
		if goal, _ := known.goal(&w.published, nil); goal == stepWithdraw {
			w.term.ingresses.Add(at)
			return
		}
	}
	delete(w.records, at)
}

func (k ingressKey) ref() snapshot.Ref {
	return snapshot.Ref{Kind: snapshot.Ingress, Namespace: k.namespace, Name: k.name}
}

// Published sets the published Service as it was last seen; nil if it does not
// exist.
func (w *Writer) Published(service *corev1.Service) {
	w.mu.Lock()
	w.service, w.serviceKnown = service, true
	problem := w.updateAddresses()
	w.mu.Unlock()
	w.logAddressProblem(problem)
}

// Nodes sets all nodes as they were last seen.
func (w *Writer) Nodes(nodes []*snapshot.NodeFacts) {
	w.mu.Lock()
	w.nodes, w.nodesKnown = nodes, true
	problem := w.updateAddresses()
	w.mu.Unlock()
	w.logAddressProblem(problem)
}

// Identify sets the UID of an object, so that kubectl describe finds Events about
// it. It is for kinds that the Writer does not get itself.
func (w *Writer) Identify(object snapshot.Ref, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if uid == "" {
		delete(w.uids, object)
		return
	}
	w.uids[object] = uid
}

// Refusals sets all refusals of an object; none, if nothing is refused any more.
func (w *Writer) Refusals(object snapshot.Ref, refusals []refusal.Refusal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.updateFaults(object, func(a *eventRecorder) { a.refusals = refusals })
}

// SetFetchFailure sets why the leader could not get something for an object, by a
// name; nil clears it. It is dropped when the leadership ends: only the leader
// tries.
func (w *Writer) SetFetchFailure(object snapshot.Ref, name string, fault *refusal.Refusal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.term == nil || w.recorders[object] == nil && fault == nil {
		return
	}
	w.updateFaults(object, func(a *eventRecorder) {
		if fault == nil {
			delete(a.fetchFailures, name)
			return
		}
		if a.fetchFailures == nil {
			a.fetchFailures = map[string]refusal.Refusal{}
		}
		a.fetchFailures[name] = *fault
	})
}

// updateFaults changes the faults of an object and queues it for Events. The caller
// holds mu.
func (w *Writer) updateFaults(object snapshot.Ref, change func(*eventRecorder)) {
	a := w.recorders[object]
	if a == nil {
		a = newEventRecorder()
	}
	change(a)
	a.updateActive(time.Now())
	if a.empty() || w.term == nil && len(a.active) == 0 {
		delete(w.recorders, object)
		return
	}
	w.recorders[object] = a
	if w.term != nil {
		w.term.notices.Add(object)
	}
}

// updateAddresses computes the published addresses again, and returns their problem
// if it is a new one. The caller holds mu.
func (w *Writer) updateAddresses() (problem string) {
	if w.options.PublishedService != "" && !w.addressesKnown() {
		return ""
	}
	before := w.published
	w.published = addressesOf(&w.options, w.service, w.nodes)
	w.metrics.addresses.Set(float64(len(w.published.addresses)))
	if w.term != nil && !sameAddresses(before.addresses, w.published.addresses) {
		w.term.addressesChanged()
	}
	if w.published.problem == before.problem {
		return ""
	}
	return w.published.problem
}

// logAddressProblem logs a problem of the published addresses. The caller does not
// hold mu, so that a slow log blocks nothing.
func (w *Writer) logAddressProblem(problem string) {
	if problem == "" {
		return
	}
	w.metrics.refused.Inc()
	w.log.Warn("some addresses of Ingresses are not published", observe.KeyReason, problem)
}

// addressesKnown reports whether the Service, and the nodes if needed, have been
// read: before that they only seem to be missing.
func (w *Writer) addressesKnown() bool {
	if !w.serviceKnown {
		return false
	}
	needsNodes := w.service != nil && w.service.Spec.Type == corev1.ServiceTypeNodePort && !w.options.NoNodes
	return !needsNodes || w.nodesKnown
}
