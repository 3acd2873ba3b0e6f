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

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// Options say what is published, and who writes it.
type Options struct {
	// IP and Hostname are published as they are, each as an address of its own.
	IP       string
	Hostname string
	// PublishedService is the namespace/name of a Service whose addresses are
	// published. It comes before IP and Hostname. When all three are empty no
	// status is written; Events still are.
	PublishedService string
	// NoNodes is set where nodes are not read. The addresses of a Service of type
	// NodePort are then unknown.
	NoNodes bool
	// Namespaces are those that are watched; empty means all.
	Namespaces []string

	// LeaseNamespace and LeaseName are the Lease that replicas compete for. The
	// name is slipway-edge when it is empty. Installations that serve different
	// classes need different Leases.
	LeaseNamespace string
	LeaseName      string
	// Identity is this replica, such as the name of its Pod. When it is empty it
	// is made of the name of the machine.
	Identity string

	// WhileLeading runs while this replica leads, and must return when its context is
	// done: no other replica leads before it has. It may be nil.
	WhileLeading func(context.Context)

	// Log and Metrics may be nil.
	Log     *slog.Logger
	Metrics *Metrics
}

// reportingController names us in Events.
const reportingController = "slipway.dev/edge"

// Writer writes the status of Ingresses and Events about refusals. The methods
// that tell it something return at once; what is told later replaces what was
// told before.
type Writer struct {
	cluster  *kube.Cluster
	options  Options
	election kube.Election
	log      *slog.Logger
	metrics  *Metrics
	leading  atomic.Bool

	// apply and announce are the requests; tests of limits that take minutes
	// stand in for them.
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
	// term is nil while another replica leads.
	term *leadershipTerm

	failures failureLog
}

// New makes a Writer. It does nothing before Run.
func New(cluster *kube.Cluster, options Options) *Writer {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
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
			w.log.Warn("no status and no Events are written by this replica: it cannot compete for the Lease", observe.KeyError, err)
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

// Run competes for the Lease and writes while it is held, until the context is
// done. Then the Lease is released. The error is about options that cannot work.
func (w *Writer) Run(ctx context.Context) error {
	return w.cluster.Elect(ctx, w.election, w.lead)
}

// Leading reports whether this replica writes.
func (w *Writer) Leading() bool { return w.leading.Load() }

// Ingress takes an Ingress as it was last seen, with its status and the entry of
// our field manager, whether it is served by us, and what is wrong with it. It
// must not be called before it is known which Ingresses are ours: the status of
// others is withdrawn. It comes before the refusals of the same Ingress.
func (w *Writer) Ingress(object *networkingv1.Ingress, ours bool, condition engine.Condition) {
	at := ingressKey{object.Namespace, object.Name}
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.records[at]
	if known == nil && !ours && !isManaged(object) {
		return
	}
	if known == nil || known.uid != object.UID {
		if told := w.recorders[at.ref()]; known != nil && told != nil {
			told.forgetReported()
		}
		known = &statusRecord{uid: object.UID}
	}
	known.ours = ours
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

// Gone takes note that there is no such Ingress any more.
func (w *Writer) Gone(namespace, name string) {
	at := ingressKey{namespace, name}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.records, at)
	delete(w.recorders, at.ref())
}

func (k ingressKey) ref() snapshot.Ref {
	return snapshot.Ref{Kind: snapshot.Ingress, Namespace: k.namespace, Name: k.name}
}

// Published takes the published Service as it was last seen; nil when there is
// none.
func (w *Writer) Published(service *corev1.Service) {
	w.mu.Lock()
	w.service, w.serviceKnown = service, true
	problem := w.updateAddresses()
	w.mu.Unlock()
	w.logAddressProblem(problem)
}

// Nodes takes all nodes as they were last seen.
func (w *Writer) Nodes(nodes []*snapshot.NodeFacts) {
	w.mu.Lock()
	w.nodes, w.nodesKnown = nodes, true
	problem := w.updateAddresses()
	w.mu.Unlock()
	w.logAddressProblem(problem)
}

// Identify says which object a name stands for just now, so that Events about
// it are found with it. It is for kinds that the Writer does not see itself.
func (w *Writer) Identify(object snapshot.Ref, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if uid == "" {
		delete(w.uids, object)
		return
	}
	w.uids[object] = uid
}

// Refusals takes everything that is refused of an object; nothing, when nothing
// is any more.
func (w *Writer) Refusals(object snapshot.Ref, refusals []snapshot.Refusal) {
	faults := make([]snapshot.Fault, 0, len(refusals))
	for i := range refusals {
		faults = append(faults, refusals[i].Fault)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.updateFaults(object, func(a *eventRecorder) { a.refusals = faults })
}

// SetFetchFailure takes what the leader could not get for an object, by a name of its
// own; nil, when it could. What was told is forgotten with the lead.
func (w *Writer) SetFetchFailure(object snapshot.Ref, name string, fault *snapshot.Fault) {
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
			a.fetchFailures = map[string]snapshot.Fault{}
		}
		a.fetchFailures[name] = *fault
	})
}

// updateFaults changes what is refused of an object. The lock is held.
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

// updateAddresses finds the addresses anew, and says what is wrong with them if that
// is news. The lock is held.
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

// logAddressProblem logs what is wrong with the addresses. The lock is not held: nobody
// waits for a log.
func (w *Writer) logAddressProblem(problem string) {
	if problem == "" {
		return
	}
	w.metrics.refused.Inc()
	w.log.Warn("the addresses of Ingresses are not all published", observe.KeyReason, problem)
}

// addressesKnown says that enough is known: nothing is missing that is only not
// read yet.
func (w *Writer) addressesKnown() bool {
	if !w.serviceKnown {
		return false
	}
	needsNodes := w.service != nil && w.service.Spec.Type == corev1.ServiceTypeNodePort && !w.options.NoNodes
	return !needsNodes || w.nodesKnown
}
