package upstream

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/route"
)

// revisionRetention is how long counts stay after no backend has the revision any
// more: its Pods may come back, and the agent may not have read the last counts.
const revisionRetention = time.Hour

// revisionKey identifies the counts of a revision. The name is part of it, because the
// canary of one release is the stable revision of the next.
type revisionKey struct {
	namespace, release, uid string
	name                    route.Revision
	hash                    string
}

// Revision counts the requests of one revision of a Release, over all backends.
type Revision struct {
	key              revisionKey
	started          atomic.Uint64
	requests, errors atomic.Uint64
	took             atomic.Int64 // the sum of all latencies, in nanoseconds
	spread           [trafficreport.Buckets]atomic.Uint32
	weight           atomic.Uint32
	retries          retryBudget
	// stable is the revision that a canary is compared with; nil for any other.
	stable atomic.Pointer[Revision]

	// users is the number of backends with the revision, and unused when the last of
	// them went. Set.mu guards both.
	users  int
	unused time.Time
}

// Name is stable or canary.
func (v *Revision) Name() string { return string(v.key.name) }

// Start counts a request that is sent.
func (v *Revision) Start() { v.started.Add(1) }

// Observe counts a request. The latency of one that failed is not counted: a quick
// failure must not look like a low latency.
func (v *Revision) Observe(failed bool, took time.Duration) {
	v.requests.Add(1)
	if failed {
		v.errors.Add(1)
		return
	}
	v.took.Add(int64(max(took, 0)))
	v.spread[trafficreport.BucketOf(took)].Add(1)
}

const (
	// minOverdue is the least time after which a request is overdue.
	minOverdue = time.Second
	// overdueFactor is how much longer than a request to the stable revision one to the canary
	// may take; one of overduePart requests to the stable revision is left out.
	overdueFactor, overduePart = 2, 1000
	// overdueKnown is how many responses of the stable revision have to be known.
	overdueKnown = 200
)

// Overdue reports whether a request to the canary that has waited for a time gets no response
// in the time in which the stable revision responds to 999 of 1,000 requests, and that once
// more. It is always false for the stable revision, and while too few responses are known.
func (v *Revision) Overdue(waited time.Duration) bool {
	stable := v.stable.Load()
	if stable == nil || waited < minOverdue {
		return false
	}
	var responses, longer uint64
	for i := range stable.spread {
		n := uint64(stable.spread[i].Load())
		responses += n
		if trafficreport.BucketEnd(i) > waited/overdueFactor {
			longer += n
		}
	}
	return responses >= overdueKnown && longer*overduePart <= responses
}

// TakeRetry reports whether a request that the revision failed may be sent to the other
// one. A retry that was of use is given back with ReturnRetry.
func (v *Revision) TakeRetry(now time.Time) bool { return v.retries.take(now) }

// ReturnRetry gives a retry back.
func (v *Revision) ReturnRetry() { v.retries.giveBack() }

// maxUselessRetries is how many retries a revision may have that were of no use, beside
// one each second.
const maxUselessRetries = 100

// retryBudget bounds retries that fail too: two revisions that fail for a common reason
// must not get more requests for it.
type retryBudget struct {
	mu    sync.Mutex // guards the rest
	taken int
	since time.Time
}

func (b *retryBudget) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if seconds := now.Sub(b.since) / time.Second; seconds > 0 {
		b.taken, b.since = b.taken-int(min(seconds, time.Duration(b.taken))), now
	}
	if b.taken >= maxUselessRetries {
		return false
	}
	b.taken++
	return true
}

func (b *retryBudget) giveBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = max(b.taken-1, 0)
}

// read returns the counts.
func (v *Revision) read() trafficreport.RevisionTraffic {
	// Errors first: a request is counted before its error, so that there are never more
	// errors than requests.
	traffic := trafficreport.RevisionTraffic{Name: v.Name(), Hash: v.key.hash, Weight: v.weight.Load(), Errors: v.errors.Load()}
	traffic.Requests, traffic.Started = v.requests.Load(), v.started.Load()
	last := 0
	var spread [trafficreport.Buckets]uint32
	for i := range v.spread {
		if spread[i] = v.spread[i].Load(); spread[i] != 0 {
			last = i + 1
		}
	}
	traffic.Latency, traffic.Took = slices.Clone(spread[:last]), time.Duration(v.took.Load())
	return traffic
}

// revisionRegistry has the counts of revisions. Set.mu guards it.
type revisionRegistry struct{ byKey map[revisionKey]*Revision }

// use sets the counts of the revisions of a backend, and counts it as a user.
func (g *revisionRegistry) use(s *releaseShares, now time.Time) {
	if s == nil {
		return
	}
	g.sweep(now)
	release := s.release
	for name, share := range map[route.Revision]*route.RevisionShare{route.RevisionStable: &release.Stable, route.RevisionCanary: &release.Canary} {
		key := revisionKey{release.Namespace, release.Name, release.UID, name, share.Hash}
		counters := g.byKey[key]
		if counters == nil {
			if g.byKey == nil {
				g.byKey = map[revisionKey]*Revision{}
			}
			counters = &Revision{key: key}
			g.byKey[key] = counters
		}
		counters.users++
		counters.weight.Store(share.Weight)
		s.parts[indexOf(name)].counters = counters
	}
	s.parts[canaryRevision].counters.stable.Store(s.parts[stableRevision].counters)
}

// drop ends the use of a backend's revisions.
func (g *revisionRegistry) drop(s *releaseShares, now time.Time) {
	if s == nil {
		return
	}
	for i := range s.parts {
		if counters := s.parts[i].counters; counters != nil {
			counters.users--
			counters.unused = now
		}
	}
}

// sweep forgets revisions that no backend has had for a while.
func (g *revisionRegistry) sweep(now time.Time) {
	maps.DeleteFunc(g.byKey, func(_ revisionKey, v *Revision) bool {
		return v.users == 0 && now.Sub(v.unused) > revisionRetention
	})
}

// Releases returns the counts of the Releases that backends have, and of those that were
// there recently. They are in the order of their names, and stable comes before canary.
func (s *Set) Releases() []trafficreport.ReleaseTraffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := slices.Collect(maps.Values(s.revisions.byKey))
	slices.SortFunc(found, func(a, b *Revision) int {
		return cmp.Or(cmp.Compare(a.key.namespace, b.key.namespace), cmp.Compare(a.key.release, b.key.release), cmp.Compare(a.key.uid, b.key.uid),
			-cmp.Compare(a.key.name, b.key.name), cmp.Compare(a.key.hash, b.key.hash))
	})
	var releases []trafficreport.ReleaseTraffic
	for _, v := range found {
		last := len(releases) - 1
		if last < 0 || releases[last].Namespace != v.key.namespace || releases[last].Name != v.key.release || releases[last].UID != v.key.uid {
			releases = append(releases, trafficreport.ReleaseTraffic{Namespace: v.key.namespace, Name: v.key.release, UID: v.key.uid, Ended: true})
			last++
		}
		releases[last].Ended = releases[last].Ended && v.users == 0
		traffic := v.read()
		traffic.Ended = v.users == 0
		releases[last].Revisions = append(releases[last].Revisions, traffic)
	}
	return releases
}
