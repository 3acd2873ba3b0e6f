package route

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestDiff(t *testing.T) {
	moment := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	endpoint := func(address string) []Endpoint {
		return []Endpoint{{Address: netip.MustParseAddrPort(address)}}
	}
	from := &Table{
		EntryPoints: []string{"web", "tls"},
		Rules: []*Rule{
			{ID: ID{Name: "same"}, Created: moment, Response: status(200)},
			{ID: ID{Name: "changed"}, Response: status(200)},
			{ID: ID{Name: "removed"}, Response: status(200)},
		},
		Backends: []*Backend{
			{ID: BackendID{Name: "same"}, Endpoints: endpoint("10.0.0.1:80")},
			{ID: BackendID{Name: "moved"}, Endpoints: endpoint("10.0.0.1:80")},
			{ID: BackendID{Name: "policy"}, Endpoints: endpoint("10.0.0.1:80")},
			{ID: BackendID{Name: "removed"}},
		},
		Certificates: []*Certificate{{ID: CertificateID{Name: "rotated"}, Key: NewSecret("old")}, {ID: CertificateID{Name: "same"}, Key: NewSecret("k")}},
		Authorities:  []*Authority{{ID: AuthorityID{Name: "removed"}}},
	}
	to := &Table{
		EntryPoints: []string{"tls", "web"},
		Rules: []*Rule{
			{ID: ID{Name: "added"}, Response: status(200)},
			{ID: ID{Name: "changed"}, Response: status(201)},
			{ID: ID{Name: "same"}, Created: moment.In(time.FixedZone("x", 3600)), Response: status(200)},
		},
		TCPRoutes: []*TCPRoute{{ID: TCPRouteID{Name: "added"}}},
		Backends: []*Backend{
			{ID: BackendID{Name: "added"}},
			{ID: BackendID{Name: "policy"}, Endpoints: endpoint("10.0.0.2:80"), Transport: Transport{Protocol: ProtocolH2C}},
			{ID: BackendID{Name: "moved"}, Endpoints: endpoint("10.0.0.2:80")},
			{ID: BackendID{Name: "same"}, Endpoints: endpoint("10.0.0.1:80")},
		},
		Certificates: []*Certificate{{ID: CertificateID{Name: "rotated"}, Key: NewSecret("new")}, {ID: CertificateID{Name: "same"}, Key: NewSecret("k")}},
	}
	want := Change{
		Rules:     Delta[ID, Rule]{Added: to.Rules[:1], Changed: to.Rules[1:2], Removed: []ID{{Name: "removed"}}},
		TCPRoutes: Delta[TCPRouteID, TCPRoute]{Added: to.TCPRoutes},
		Backends: BackendDelta{
			Delta:            Delta[BackendID, Backend]{Added: to.Backends[:1], Changed: to.Backends[1:2], Removed: []BackendID{{Name: "removed"}}},
			EndpointsChanged: to.Backends[2:3],
		},
		Certificates: Delta[CertificateID, Certificate]{Changed: to.Certificates[:1]},
		Authorities:  Delta[AuthorityID, Authority]{Removed: []AuthorityID{{Name: "removed"}}},
	}
	got := Diff(from, to)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got.Empty() {
		t.Error("the change says it is empty")
	}
	for _, table := range []*Table{from, to, {}, nil} {
		if change := Diff(table, table); !change.Empty() {
			t.Errorf("a table differs from itself: %+v", change)
		}
	}
	if change := Diff(&Table{EntryPoints: []string{"a"}}, &Table{EntryPoints: []string{"b"}}); !change.NewEntryPoints || !slices.Equal(change.EntryPoints, []string{"b"}) {
		t.Errorf("new entry points are not in the change: %+v", change)
	}
}

// TestDiffLeadsThere: a table with the change applied to it is the other one.
func TestDiffLeadsThere(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	fill := &filler{random: random, strings: []string{"a", "b", "c"}}
	tables := []*Table{}
	for len(tables) < 60 {
		if table := fill.table(); len(table.checkDuplicates()) == 0 {
			tables = append(tables, table)
		}
	}
	for range 1000 {
		from, to := tables[random.IntN(len(tables))], mixed(random, tables)
		change := Diff(from, to)
		follow(t, from.Rules, to.Rules, change.Rules, func(v *Rule) ID { return v.ID })
		follow(t, from.TLSOptions, to.TLSOptions, change.TLSOptions, func(v *TLSOptions) TLSOptionsID { return v.ID })
		follow(t, from.Certificates, to.Certificates, change.Certificates, func(v *Certificate) CertificateID { return v.ID })
		backends := change.Backends.Delta
		backends.Changed = slices.Concat(backends.Changed, change.Backends.EndpointsChanged)
		follow(t, from.Backends, to.Backends, backends, func(v *Backend) BackendID { return v.ID })
	}
}

// mixed makes a table that shares values with others, as tables do that
// follow each other.
func mixed(random *rand.Rand, tables []*Table) *Table {
	table := *tables[random.IntN(len(tables))]
	table.Rules = slices.Clone(table.Rules)
	for i, rule := range table.Rules {
		if random.IntN(2) == 0 {
			copied := *rule
			copied.Priority += int32(random.IntN(2))
			table.Rules[i] = &copied
		}
	}
	random.Shuffle(len(table.Rules), func(i, j int) { table.Rules[i], table.Rules[j] = table.Rules[j], table.Rules[i] })
	return &table
}

func follow[K comparable, V any](t *testing.T, from, to []*V, delta Delta[K, V], key func(*V) K) {
	t.Helper()
	state := make(map[K]*V)
	for _, value := range from {
		state[key(value)] = value
	}
	for _, id := range delta.Removed {
		if state[id] == nil {
			t.Fatalf("%v is removed and was not there", id)
		}
		delete(state, id)
	}
	for _, value := range delta.Changed {
		if state[key(value)] == nil || reflect.DeepEqual(state[key(value)], value) {
			t.Fatalf("%v is changed and was not there, or is the same", key(value))
		}
		state[key(value)] = value
	}
	for _, value := range delta.Added {
		if state[key(value)] != nil {
			t.Fatalf("%v is added and was there", key(value))
		}
		state[key(value)] = value
	}
	if len(state) != len(to) {
		t.Fatalf("there are %d, want %d", len(state), len(to))
	}
	for _, value := range to {
		if !reflect.DeepEqual(state[key(value)], value) {
			t.Fatalf("%v is not what it should be", key(value))
		}
	}
}
