package filter

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/edge/sharedlimit"
	"slipway.dev/slipway/internal/route"
)

const (
	// lendingPeriod is the time between two exchanges, in nanoseconds.
	lendingPeriod = int64(sharedlimit.Period)
	// viewLag is how old the spending of others can be when it is charged: they send
	// it once per period, and it is charged until the end of the next.
	viewLag = 2 * lendingPeriod
	// relaxation is the part of the difference between two views that a message
	// removes. Views differ after a start or a lost message.
	relaxation = 32
	// idleDemand is the smoothed demand below which a key is no longer exchanged.
	idleDemand = 0.01
	// maxDebt bounds what a message can charge, far above the limits in use: sums of
	// it cannot overflow.
	// Neither can those of the most replicas that are counted.
	maxReplicas = 1024
	maxDebt     = int64(10 * 24 * time.Hour)
)

// sharing is the state of counters whose limits hold over replicas.
type sharing struct {
	hash sharedlimit.HashKey
	// replicas are those that are heard and those that exist, this one included, in
	// one word, so that a request reads both at once.
	replicas atomic.Uint64

	mu sync.Mutex
	// states finds the state of a declaration by its hash.
	states map[uint64]sharedState
}

// sharedState is the state of a declaration whose limit holds over replicas.
type sharedState interface {
	// lend ends a lending period and appends what was spent in it.
	lend(entries []sharedlimit.Entry, limit uint64, now, heard int64) []sharedlimit.Entry
	// charge adds what another replica spent of a key.
	charge(sender uint64, entry *sharedlimit.Entry, now int64)
	// inUse reports whether there are keys to exchange.
	inUse() bool
}

// demand is the number of requests in a lending period, smoothed.
type demand struct{ own, others float32 }

// add adds a period, and reports whether there are no requests any more.
func (d *demand) add(own, others int64) (idle bool) {
	d.own, d.others = (d.own+float32(own))/2, (d.others+float32(others))/2
	return d.own+d.others < idleDemand
}

// part is the share of this replica of what is left. A quarter is divided equally, so
// that requests that move to a replica without demand are not refused below the
// limit; the rest is divided by demand.
func (d *demand) part(replicas int64) float64 {
	n := float64(replicas)
	return 0.25/n + 0.75*float64(d.own+1)/(float64(d.own+d.others)+n)
}

// Share makes the limits hold over replicas, whose keys are hashed with hash. It
// must be called before the first policy is compiled.
func (c *Counters) Share(hash sharedlimit.HashKey) {
	c.sharing = &sharing{hash: hash, states: map[uint64]sharedState{}}
	c.SetReplicas(1, 1)
}

// SetReplicas sets how many replicas there are, and how many of them are heard.
func (c *Counters) SetReplicas(heard, members int) {
	heard, members = min(max(1, heard), maxReplicas), min(max(1, members), maxReplicas)
	c.sharing.replicas.Store(uint64(heard)<<32 | uint64(max(heard, members)))
}

// view returns the part of each limit that belongs to the replicas that are heard,
// and their number. The majority has all of it, because those that are missing are
// most likely dead. A minority has its part only: the others may be alive behind a
// broken network.
func (s *sharing) view() (stretch, heard int64) {
	word := s.replicas.Load()
	heard, members := int64(word>>32), int64(word&(1<<32-1))
	if 2*heard > members {
		return 1, heard
	}
	return (members + heard - 1) / heard, heard
}

// share registers the state of a declaration. A declaration has one kind of limit.
func (s *sharing) share(id route.PolicyID, state sharedState) {
	text := id.Kind + "\x00" + id.Namespace + "\x00" + id.Name + "\x00" + id.Variant
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[s.hash.Sum([]byte(text))] = state
}

// keep drops the declarations whose counts were dropped.
func (s *sharing) keep(rates stateMap[buckets], running stateMap[flights]) {
	if s == nil {
		return
	}
	live := make(map[sharedState]bool, len(rates)+len(running))
	for _, kept := range rates {
		live[kept.state] = true
	}
	for _, kept := range running {
		live[kept.state] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.states, func(_ uint64, state sharedState) bool { return !live[state] })
}

// used returns the declarations that have keys to exchange.
func (s *sharing) used() map[uint64]sharedState {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := make(map[uint64]sharedState)
	for limit, state := range s.states {
		if state.inUse() {
			used[limit] = state
		}
	}
	return used
}

// Lend ends a lending period: it returns what was spent in it, and divides what is
// left by demand.
func (c *Counters) Lend(now time.Time) []sharedlimit.Entry {
	var entries []sharedlimit.Entry
	_, heard := c.sharing.view()
	for limit, state := range c.sharing.used() {
		entries = state.lend(entries, limit, c.since(now), heard)
	}
	return entries
}

// Charge charges the limits with what another replica spent. Limits that this
// replica does not have yet are skipped.
func (c *Counters) Charge(sender uint64, entries []sharedlimit.Entry, now time.Time) {
	at := c.since(now)
	for i := range entries {
		c.sharing.mu.Lock()
		state := c.sharing.states[entries[i].Limit]
		c.sharing.mu.Unlock()
		if state != nil {
			state.charge(sender, &entries[i], at)
		}
	}
}

// loan is the part of a bucket that is about other replicas. Where it is in use,
// bucket.full does not include spent, which is not exchanged yet.
type loan struct {
	// spent are the tokens that this replica took since the last exchange, in
	// nanoseconds of refill; requests counts the requests for them.
	spent, requests int64
	// received counts the requests of other replicas since the last exchange.
	received int64
	demand   demand
	// share is the part of what is left that this replica may spend. 0 is not yet
	// known: an equal part.
	share  float32
	listed bool
}

// loanOf returns the loan of a node and puts it on the list of those in use.
func (s *bucketShard) loanOf(i int32, active *atomic.Int64) *loan {
	for len(s.loans) < len(s.nodes) {
		s.loans = append(s.loans, loan{})
	}
	l := &s.loans[i]
	if !l.listed {
		l.listed = true
		s.lent = append(s.lent, i)
		active.Add(1)
	}
	return l
}

// takeShared is take for a limit that holds over replicas: besides the bucket, the
// share of this replica must have a token. A share is rounded up, so that a small
// burst is usable on every replica; what is too much is charged later.
func (b *buckets) takeShared(key uint64, now, interval, depth, heard int64) (wait int64) {
	shard := &b.shards[key%shardCount]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	i := shard.seen(key, now)
	node, l := &shard.nodes[i], shard.loanOf(i, &b.active)
	l.requests++
	// The debt can be as large as the bursts of all replicas, and larger only after a
	// change from a stricter limit.
	full := min(node.full, now+depth+min(depth, maxDebt)*heard)
	if l.spent == 0 {
		// The spending of others in this period is not known yet, so a bucket that
		// they use is not full before it is known.
		slack := int64(0)
		if l.demand.others > 0 {
			slack = viewLag
		}
		full = max(full, now-slack)
	}
	if wait = full + l.spent + interval - depth - now; wait > 0 {
		return wait
	}
	share := float64(l.share)
	if share == 0 {
		share = 1 / float64(heard)
	}
	if float64(l.spent) >= share*float64(now+depth-full) {
		return lendingPeriod
	}
	node.full = full
	l.spent += interval
	return 0
}

// lend ends the lending period of a shard. Keys above the bound of a message keep
// what they spent for the next one.
func (s *bucketShard) lend(entries []sharedlimit.Entry, limit uint64, now, heard int64, active *atomic.Int64) []sharedlimit.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.lent[:0]
	for _, i := range s.lent {
		node, l := &s.nodes[i], &s.loans[i]
		if l.requests > 0 {
			if len(entries) >= sharedlimit.MaxEntries {
				kept = append(kept, i)
				continue
			}
			node.full += l.spent
			entries = append(entries, sharedlimit.Entry{
				Limit: limit, Key: node.key, Spent: time.Duration(l.spent), Requests: l.requests, Debt: time.Duration(max(0, node.full+viewLag-now)),
			})
		}
		idle := l.demand.add(l.requests, l.received)
		l.spent, l.requests, l.received = 0, 0, 0
		if idle {
			*l = loan{}
			active.Add(-1)
			continue
		}
		l.share = float32(l.demand.part(heard))
		kept = append(kept, i)
	}
	s.lent = kept
	return entries
}

// lend implements [sharedState].
func (b *buckets) lend(entries []sharedlimit.Entry, limit uint64, now, heard int64) []sharedlimit.Entry {
	for i := range b.shards {
		entries = b.shards[i].lend(entries, limit, now, heard, &b.active)
	}
	return entries
}

// charge implements [sharedState]. The view of the sender replaces its identity.
func (b *buckets) charge(_ uint64, entry *sharedlimit.Entry, now int64) {
	b.shards[entry.Key%shardCount].charge(entry, now, &b.active)
}

// inUse implements [sharedState].
func (b *buckets) inUse() bool { return b.active.Load() > 0 }

// charge adds what another replica spent of a key.
func (s *bucketShard) charge(entry *sharedlimit.Entry, now int64, active *atomic.Int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.seen(max(1, entry.Key), now)
	node, l := &s.nodes[i], s.loanOf(i, active)
	l.received += entry.Requests
	full := min(maxDebt, int64(entry.Spent)) + max(node.full, now-viewLag)
	full += (now - viewLag + min(maxDebt, int64(entry.Debt)) - full) / relaxation
	node.full = min(full, now+maxDebt)
}
