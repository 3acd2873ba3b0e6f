package acme

import (
	"cmp"
	"context"
	"crypto/x509"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/acme/dns01"
	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/secret"
)

// Resolver configures an authority and the certificates that it issues.
type Resolver struct {
	// Directory is the URL of the authority's directory.
	Directory string
	Email     string
	// Roots verify the server of the directory; nil means those of the system.
	Roots *x509.CertPool
	// KeyType is one of EC256, EC384, RSA2048 and RSA4096.
	KeyType string
	// BindingID and BindingKey are for external account binding (RFC 8555,
	// section 7.3.4); both are empty where the authority does not need it.
	BindingID  string
	BindingKey secret.Text
	// PreferredChain is the common name of a root; empty is the authority's choice.
	PreferredChain string
	// EntryPoint serves HTTP-01 challenges; empty with DNS.
	EntryPoint string
	// DNS publishes DNS-01 challenges; nil with EntryPoint.
	DNS *dns01.Publisher
}

// Options are what a Manager needs.
type Options struct {
	Resolvers map[string]Resolver
	// Namespaces are those whose objects are served; empty means all.
	Namespaces []string
	// Owner distinguishes this installation from others in the cluster: it
	// deletes only its own certificates.
	Owner string
	// Agent is the User-Agent of requests to authorities.
	Agent string
	// Report sets the fault of a certificate on the object that requests it, by the
	// name of the Secret; nil clears it. It must not block.
	Report  func(object snapshot.Ref, name string, fault *refusal.Refusal)
	Metrics *Metrics
	Log     *slog.Logger
}

// timing has the delays and timeouts. Tests shorten them.
type timing struct {
	// first and longest bound the backoff after failures.
	first, longest time.Duration
	// propagation is the time that other replicas get to serve a challenge, once
	// this one does. A watch delivers it within milliseconds.
	propagation time.Duration
	// serveTimeout bounds the time until this replica serves a challenge.
	serveTimeout time.Duration
	// orderTimeout bounds one order.
	orderTimeout time.Duration
	// renewalInfo is the interval of requests for renewal information.
	renewalInfo time.Duration
	// sweepInterval is how often unused certificates and challenges are looked
	// for, keepUnused and keepChallenges how long they are kept.
	sweepInterval, keepUnused, keepChallenges time.Duration
}

// defaultTiming keeps a failing resolver far below the limits of public authorities,
// such as five failed validations per hour.
func defaultTiming() timing {
	return timing{
		first: time.Minute, longest: 6 * time.Hour,
		propagation: 2 * time.Second, serveTimeout: 30 * time.Second, orderTimeout: 10 * time.Minute,
		renewalInfo:   6 * time.Hour,
		sweepInterval: 10 * time.Minute, keepUnused: 24 * time.Hour, keepChallenges: time.Hour,
	}
}

// Manager issues and renews the certificates that Ingresses and listeners request. SetRequests
// and SetServedChallenges return at once, and each call replaces the one before.
// Every replica has a Manager; the leader runs Lead.
type Manager struct {
	cluster *kube.Cluster
	options Options
	timing  timing
	log     *slog.Logger

	mu sync.Mutex
	// requests are by resolver. received is set by the first call of SetRequests,
	// also by one without requests.
	requests map[string][]certrequest.Request
	received bool
	// servedSince is when this replica began to serve the challenge of a token.
	servedSince map[string]time.Time
	// changed is closed and replaced when one of the above changes.
	changed chan struct{}
	// tracked are the certificates of the leader, for metrics.
	tracked map[snapshot.Ref]trackedCertificate
}

// New returns a Manager. It issues nothing before Lead.
func New(cluster *kube.Cluster, options Options) *Manager {
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	if options.Metrics == nil {
		options.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	if options.Report == nil {
		options.Report = func(snapshot.Ref, string, *refusal.Refusal) {}
	}
	m := &Manager{
		cluster: cluster, options: options, timing: defaultTiming(), log: options.Log,
		requests: map[string][]certrequest.Request{}, servedSince: map[string]time.Time{}, changed: make(chan struct{}),
		tracked: map[snapshot.Ref]trackedCertificate{},
	}
	options.Metrics.attach(m)
	return m
}

// SetRequests sets all certificates that are requested.
func (m *Manager) SetRequests(all []certrequest.Request) {
	sorted := map[string][]certrequest.Request{}
	for _, wanted := range all {
		sorted[wanted.Resolver] = append(sorted[wanted.Resolver], wanted)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests, m.received = sorted, true
	m.broadcast()
}

// SetServedChallenges sets the tokens of all challenges that this replica
// serves. A token that was served before keeps its time, from which Wait
// measures the propagation to other replicas.
func (m *Manager) SetServedChallenges(tokens []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	responded := make(map[string]time.Time, len(tokens))
	for _, token := range tokens {
		since, already := m.servedSince[token]
		if !already {
			since = now
		}
		responded[token] = since
	}
	m.servedSince = responded
	m.broadcast()
}

// broadcast wakes all waiters. The caller holds mu.
func (m *Manager) broadcast() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// Lead issues certificates until the context is done. Only the leader calls it:
// two replicas that order at the same time would spend the limits twice.
func (m *Manager) Lead(ctx context.Context) {
	if !m.awaitRequests(ctx) {
		return
	}
	var working sync.WaitGroup
	for name, resolver := range m.options.Resolvers {
		working.Go(func() {
			authority := newAuthority(m, name, resolver)
			defer authority.close()
			authority.removeLeftRecords(ctx)
			newIssuerWorker(m, name, &secretStore{manager: m, resolver: resolver}, authority).run(ctx)
		})
	}
	working.Go(func() { m.sweepAll(ctx) })
	working.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.tracked)
}

// awaitRequests blocks until the first SetRequests: before that, all certificates
// look unused and would be swept. It reports whether the context lasted.
func (m *Manager) awaitRequests(ctx context.Context) bool {
	for {
		m.mu.Lock()
		known, changed := m.received, m.changed
		m.mu.Unlock()
		if known {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// current returns the requests for a resolver, and a channel that is closed at
// the next change.
func (m *Manager) current(resolver string) ([]certrequest.Request, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests[resolver], m.changed
}

// requestedSecrets returns the Secrets of all requests.
func (m *Manager) requestedSecrets() map[snapshot.Ref]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[snapshot.Ref]bool{}
	for _, requests := range m.requests {
		for i := range requests {
			all[requests[i].Secret] = true
		}
	}
	return all
}
