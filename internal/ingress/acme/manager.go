package acme

import (
	"context"
	"crypto/x509"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/wish"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/secret"
)

// Resolver is an authority, and how certificates of it are made.
type Resolver struct {
	// Directory is the URL of the authority's directory.
	Directory string
	Email     string
	// Roots may vouch for the directory; nil is the system's.
	Roots *x509.CertPool
	// KeyType is one of EC256, EC384, RSA2048 and RSA4096.
	KeyType string
	// BindingID and BindingKey tie the account to another one; both are empty
	// where that is not needed.
	BindingID  string
	BindingKey secret.Text
	// PreferredChain is the common name of a root; empty is the authority's choice.
	PreferredChain string
	// EntryPoint is where challenges are answered.
	EntryPoint string
}

// Options are what a Manager needs.
type Options struct {
	Resolvers map[string]Resolver
	// Namespaces are those that are served; empty is all.
	Namespaces []string
	// Owner tells this installation from others in the cluster: it deletes its
	// own certificates only.
	Owner string
	// Agent is what authorities are told of the program.
	Agent string
	// Tell takes what could not be fetched for an Ingress, by the name of the
	// Secret; nil, when it was. It does not wait.
	Tell    func(ingress snapshot.Ref, name string, fault *snapshot.Fault)
	Metrics *Metrics
	Log     *slog.Logger
}

// pace is how fast. Tests change it.
type pace struct {
	// first and longest are the pauses after failures.
	first, longest time.Duration
	// grace is what other replicas have to learn the answer to a challenge, once
	// this one gives it. A watch brings it within milliseconds.
	grace time.Duration
	// served is how long this replica may take for it.
	served time.Duration
	// order bounds one order.
	order time.Duration
	// advice is how often an authority is asked when to renew.
	advice time.Duration
	// sweep is how often it is looked for what nobody wishes for any more, and
	// keep how long that is kept. Challenges are kept for left.
	sweep, keep, left time.Duration
}

func defaultPace() pace {
	return pace{
		first: time.Minute, longest: 6 * time.Hour,
		grace: 2 * time.Second, served: 30 * time.Second, order: 10 * time.Minute,
		advice: 6 * time.Hour,
		sweep:  10 * time.Minute, keep: 24 * time.Hour, left: time.Hour,
	}
}

// Manager fetches certificates. Wishes and Serving return at once; what is told
// later replaces what was told before.
type Manager struct {
	cluster *kube.Cluster
	options Options
	pace    pace
	log     *slog.Logger

	mu sync.Mutex
	// wishes are by resolver, and known is set once there were any, or none.
	wishes map[string][]wish.Wish
	known  bool
	// answered is when this replica began to answer for each token.
	answered map[string]time.Time
	// changed is closed and made anew when something of these changes.
	changed chan struct{}
	// holdings are the certificates of the leader, for metrics.
	holdings map[snapshot.Ref]holding
}

// New makes a Manager. It does nothing before Lead.
func New(cluster *kube.Cluster, options Options) *Manager {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.Metrics == nil {
		options.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	if options.Tell == nil {
		options.Tell = func(snapshot.Ref, string, *snapshot.Fault) {}
	}
	m := &Manager{
		cluster: cluster, options: options, pace: defaultPace(), log: options.Log,
		wishes: map[string][]wish.Wish{}, answered: map[string]time.Time{}, changed: make(chan struct{}),
		holdings: map[snapshot.Ref]holding{},
	}
	options.Metrics.follow(m)
	return m
}

// Wishes takes all certificates that are wished for.
func (m *Manager) Wishes(all []wish.Wish) {
	sorted := map[string][]wish.Wish{}
	for _, wanted := range all {
		sorted[wanted.Resolver] = append(sorted[wanted.Resolver], wanted)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wishes, m.known = sorted, true
	m.broadcast()
}

// Serving takes the tokens of all challenges that this replica answers now.
func (m *Manager) Serving(tokens []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	answered := make(map[string]time.Time, len(tokens))
	for _, token := range tokens {
		since, already := m.answered[token]
		if !already {
			since = now
		}
		answered[token] = since
	}
	m.answered = answered
	m.broadcast()
}

// broadcast wakes everybody who waits. The lock is held.
func (m *Manager) broadcast() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// Lead fetches until the context is done. No two replicas may do so at a time.
func (m *Manager) Lead(ctx context.Context) {
	if !m.awaitWishes(ctx) {
		return
	}
	var working sync.WaitGroup
	for name, resolver := range m.options.Resolvers {
		working.Go(func() {
			authority := newAuthority(m, name, resolver)
			defer authority.close()
			newClerk(m, name, &cupboard{manager: m, resolver: resolver}, authority).run(ctx)
		})
	}
	working.Go(func() { m.sweepAll(ctx) })
	working.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.holdings)
}

// awaitWishes waits until it is known what is wished for: before that, all
// certificates look as if nobody needed them.
func (m *Manager) awaitWishes(ctx context.Context) bool {
	for {
		m.mu.Lock()
		known, changed := m.known, m.changed
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

// current are the wishes for a resolver, and a channel that is closed when
// something changes.
func (m *Manager) current(resolver string) ([]wish.Wish, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wishes[resolver], m.changed
}

// wished are the Secrets of all wishes.
func (m *Manager) wished() map[snapshot.Ref]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[snapshot.Ref]bool{}
	for _, wishes := range m.wishes {
		for i := range wishes {
			all[wishes[i].Secret] = true
		}
	}
	return all
}
