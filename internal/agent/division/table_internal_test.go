package division

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// TestShares: members have about equal shares, and only the keys of a member that
// leaves move.
func TestShares(t *testing.T) {
	members := []string{"slipway-agent-member-a", "slipway-agent-member-b", "slipway-agent-member-c", "slipway-agent-member-d"}
	const keys = 10_000
	shares := map[string]int{}
	for i := range keys {
		key := fmt.Sprintf("argocd/app-%d", i)
		owner := ownerOf(members, key)
		shares[owner]++
		if after := ownerOf(members[:3], key); owner != members[3] && after != owner {
			t.Fatalf("%s moved from %s to %s, and neither left", key, owner, after)
		}
	}
	for _, member := range members {
		if share := shares[member]; share < keys*22/100 || share > keys*28/100 {
			t.Errorf("%s has %d of %d keys", member, share, keys)
		}
	}
	if ownerOf(nil, "a") != "" {
		t.Error("a key without members has an owner")
	}
}

// TestTable: what is written can be read, and what is not a table is refused.
func TestTable(t *testing.T) {
	table := []generation{{3, []string{"a"}}, {4, []string{"a", "b"}}}
	if got := must.Get(parseTable(encodeTable(table)))(t); !slices.EqualFunc(got, table, func(a, b generation) bool { return a.Number == b.Number && slices.Equal(a.Members, b.Members) }) {
		t.Errorf("read %v", got)
	}
	for _, text := range []string{"", "{}", `[{"generation":0}]`, `[{"generation":2},{"generation":2}]`, `[{"generation":2},{"generation":4}]`} {
		if got, err := parseTable(text); err == nil {
			t.Errorf("%s is taken for %v", text, got)
		}
	}
}

// FuzzTable: no text breaks the rules that are built on a table.
func FuzzTable(f *testing.F) {
	f.Add(`[{"generation":3,"members":["a","b"]}]`, int64(3))
	f.Fuzz(func(t *testing.T, text string, acknowledged int64) {
		generations, err := parseTable(text)
		if err != nil {
			return
		}
		s := &snapshot{generations: generations, acknowledged: map[string]int64{"a": max(0, acknowledged), "b": 0}}
		s.allows("a", "key")
		s.next()
	})
}

// world is a cluster with the Leases of a division, and members that see it late. It is
// the protocol without clocks: a member that is gone is one whose Lease was deleted.
type world struct {
	random *rand.Rand
	// versions are all states of the Leases, in order.
	versions []*snapshot
	members  []*modelMember
	created  int
	keys     []string
	// weights are how often each thing happens: some worlds have members that hardly ever
	// acknowledge, and others have generations in quick succession.
	weights [actions]int
}

// What can happen.
const (
	die = iota
	look
	endWork
	acknowledge
	writeTable
	claimKey
	actions
)

// choose picks what happens next.
func (w *world) choose() int {
	sum := 0
	for _, weight := range w.weights {
		sum += weight
	}
	left := w.random.IntN(sum)
	for action, weight := range w.weights {
		if left -= weight; left < 0 {
			return action
		}
	}
	return claimKey
}

// modelMember is a member that sees a version, works on keys, and may stop at any time.
type modelMember struct {
	name         string
	sees         int
	acknowledged int64
	// ready is the generation that it has ended its work for, and can acknowledge.
	ready int64
	has   map[string]bool
	gone  bool
}

// now is the last version.
func (w *world) now() *snapshot { return w.versions[len(w.versions)-1] }

// commit adds a version.
func (w *world) commit(change func(*snapshot)) {
	next := &snapshot{generations: slices.Clone(w.now().generations), acknowledged: maps.Clone(w.now().acknowledged)}
	change(next)
	w.versions = append(w.versions, next)
}

// step does one thing that can happen.
func (w *world) step() {
	m := w.members[w.random.IntN(len(w.members))]
	if m.gone {
		w.join()
		return
	}
	seen := w.versions[m.sees]
	switch w.choose() {
	case die:
		// Or its Lease expires: it has nothing from then on.
		m.gone, m.has = true, nil
		w.commit(func(s *snapshot) { delete(s.acknowledged, m.name) })
	case look:
		m.sees += w.random.IntN(len(w.versions) - m.sees)
	case endWork:
		for key := range m.has {
			if !seen.allows(m.name, key) {
				delete(m.has, key)
			}
		}
		m.ready = seen.latest()
	case acknowledge:
		if m.ready > m.acknowledged {
			w.commit(func(s *snapshot) { s.acknowledged[m.name] = m.ready })
			m.acknowledged = m.ready
		}
	case writeTable:
		// The table is written only for the version that was read.
		if table, due := seen.next(); due && seen.latest() == w.now().latest() {
			w.commit(func(s *snapshot) { s.generations = table })
		}
	default:
		if key := w.keys[w.random.IntN(len(w.keys))]; seen.allows(m.name, key) {
			m.has[key] = true
		}
	}
}

// join adds a member. At most four are live.
func (w *world) join() {
	live := 0
	for _, one := range w.members {
		if !one.gone {
			live++
		}
	}
	if live >= 4 {
		return
	}
	w.created++
	name := fmt.Sprintf("member-%d", w.created)
	w.commit(func(s *snapshot) { s.acknowledged[name] = 0 })
	w.members = append(slices.DeleteFunc(w.members, func(one *modelMember) bool { return one.gone }), &modelMember{name: name, sees: w.random.IntN(len(w.versions)), has: map[string]bool{}})
}

// TestNeverTwo plays random orders of everything that can happen: members see the
// cluster late, acknowledge late, die and join. Two never have one key, and every key
// has an owner when nothing happens any more.
func TestNeverTwo(t *testing.T) {
	moves := 0
	for seed := range uint64(500) {
		w := &world{random: rand.New(rand.NewPCG(seed, 78)), versions: []*snapshot{{acknowledged: map[string]int64{}}}}
		for i := range 12 {
			w.keys = append(w.keys, fmt.Sprintf("argocd/app-%d", i))
		}
		for action := range w.weights {
			w.weights[action] = 1 + w.random.IntN(40)
		}
		w.weights[die] = 1 + w.random.IntN(8)
		w.join()
		w.join()
		for step := range 1000 {
			if w.random.IntN(12) == 0 {
				w.join()
			}
			w.step()
			for _, key := range w.keys {
				var holders []string
				for _, m := range w.members {
					if m.has[key] {
						holders = append(holders, m.name)
					}
				}
				if len(holders) > 1 {
					t.Fatalf("seed %d, step %d: %v have %s at generation %d", seed, step, holders, key, w.now().latest())
				}
			}
		}
		moves += int(w.now().latest())
		w.settle(t, seed)
	}
	if moves < 3000 {
		t.Errorf("only %d generations were played", moves)
	}
}

// settle lets all members see everything, until nothing changes.
func (w *world) settle(t *testing.T, seed uint64) {
	t.Helper()
	w.members = slices.DeleteFunc(w.members, func(one *modelMember) bool { return one.gone })
	for range 4 {
		if table, due := w.now().next(); due {
			w.commit(func(s *snapshot) { s.generations = table })
		}
		for _, m := range w.members {
			m.acknowledged = w.now().latest()
			w.commit(func(s *snapshot) { s.acknowledged[m.name] = m.acknowledged })
		}
	}
	for _, key := range w.keys {
		owners := 0
		for _, m := range w.members {
			if w.now().allows(m.name, key) {
				owners++
			}
		}
		if len(w.members) > 0 && owners != 1 {
			t.Errorf("seed %d: %s has %d owners of %d members at generation %d", seed, key, owners, len(w.members), w.now().latest())
		}
	}
	if got := len(w.now().generations); got > maxGenerations {
		t.Errorf("seed %d: the table has %d generations", seed, got)
	}
}
