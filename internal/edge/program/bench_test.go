package program_test

import (
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"testing"
	"time"
	"unique"

	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// The sizes of the large table: what one edge of a large cluster serves.
const (
	largeHosts        = 10_000
	largeRulesPerHost = 10
)

// largeTable has 100,000 rules over 10,000 hosts, as a translation of
// Ingresses would make them: one object and one backend for each host.
func largeTable() *route.Table {
	table := &route.Table{EntryPoints: []string{"web", "websecure"}}
	for h := range largeHosts {
		namespace := fmt.Sprintf("team-%d", h%500)
		host := fmt.Sprintf("app-%d.example.com", h)
		backend := route.BackendID{Namespace: namespace, Name: fmt.Sprintf("app-%d", h), Port: 80}
		table.Backends = append(table.Backends, largeBackend(backend, 3))
		for r := range largeRulesPerHost {
			table.Rules = append(table.Rules, &route.Rule{
				ID:       route.ID{Kind: "Ingress", Namespace: namespace, Name: backend.Name, Path: r},
				Host:     host,
				Match:    route.Match{Path: largePath(r)},
				Backends: []route.BackendRef{{Backend: backend}},
			})
		}
	}
	return table
}

func largeBackend(id route.BackendID, endpoints int) *route.Backend {
	backend := &route.Backend{ID: id}
	for i := range endpoints {
		address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 8080)
		backend.Endpoints = append(backend.Endpoints, route.Endpoint{Address: address})
	}
	return backend
}

func largePath(r int) route.PathMatch {
	switch r {
	case 0:
		return route.PathMatch{Type: route.PathPrefix, Value: "/"}
	case 1:
		return route.PathMatch{Type: route.PathExact, Value: "/healthz"}
	default:
		return route.PathMatch{Type: route.PathPrefix, Value: fmt.Sprintf("/api/v%d/orders", r)}
	}
}

// manyRequests go to hosts all over the table, so that caches do not flatter
// the result.
func manyRequests(path string) []program.Request {
	requests := make([]program.Request, 4096)
	for i := range requests {
		host := fmt.Sprintf("app-%d.example.com", i*7919%largeHosts)
		requests[i] = program.Request{EntryPoint: "web", Host: host, Path: path, Method: "GET"}
	}
	return requests
}

func mustCompile(tb testing.TB, table *route.Table) *program.Program {
	tb.Helper()
	compiled, err := program.Compiler{}.Compile(table)
	must.Do(tb, err)
	return compiled
}

func BenchmarkLookup(b *testing.B) {
	compiled := mustCompile(b, largeTable())
	// The same rules at a listener of a Gateway.
	table, listener := largeTable(), route.ListenerID{Namespace: "infra", Name: "public", Port: 80}
	for _, rule := range table.Rules {
		rule.Listener = listener
	}
	listening := mustCompile(b, table)
	for _, c := range []struct{ name, path string }{
		{"root", "/"},
		{"exact", "/healthz"},
		{"prefix", "/api/v5/orders/1234/items"},
		{"deepmiss", "/api/v5/orderly"},
	} {
		requests := manyRequests(c.path)
		b.Run(c.name, func(b *testing.B) { lookupAll(b, compiled, requests) })
		for i := range requests {
			requests[i].EntryPoint, requests[i].Listener = "", unique.Make(listener)
		}
		b.Run(c.name+"-listener", func(b *testing.B) { lookupAll(b, listening, requests) })
	}
	b.Run("unknownhost", func(b *testing.B) {
		b.ReportAllocs()
		req := program.Request{EntryPoint: "web", Host: "nobody.example.org", Path: "/"}
		for b.Loop() {
			if compiled.Lookup(&req).Rule != nil {
				b.Fatal("a rule")
			}
		}
	})
}

// lookupAll measures the lookups of requests that all have a rule.
func lookupAll(b *testing.B, compiled *program.Program, requests []program.Request) {
	b.ReportAllocs()
	best := time.Duration(math.MaxInt64)
	for b.Loop() {
		started := time.Now()
		for i := range requests {
			if compiled.Lookup(&requests[i]).Rule == nil {
				b.Fatal("no rule")
			}
		}
		best = min(best, time.Since(started))
	}
	perLookup(b, len(requests), best)
}

// perLookup reports a benchmark whose loop does many lookups: the average, and
// the best round, which is what a machine gives that is not busy elsewhere.
func perLookup(b *testing.B, count int, best time.Duration) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(count), "ns/lookup")
	b.ReportMetric(float64(best.Nanoseconds())/float64(count), "best-ns/lookup")
}

func BenchmarkLookupParallel(b *testing.B) {
	compiled := mustCompile(b, largeTable())
	requests := manyRequests("/api/v5/orders/1234/items")
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if compiled.Lookup(&requests[i%len(requests)]).Rule == nil {
				b.Error("no rule")
			}
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	table := largeTable()
	b.ReportAllocs()
	for b.Loop() {
		mustCompile(b, table)
	}
}

func BenchmarkValidate(b *testing.B) {
	table := largeTable()
	for b.Loop() {
		if problems := table.Validate(); len(problems) > 0 {
			b.Fatal(problems[0])
		}
	}
}

func BenchmarkApply(b *testing.B) {
	table := largeTable()
	compiled := mustCompile(b, table)
	rule := *table.Rules[54_321]
	rule.Match.Path.Value = "/other"
	backend := largeBackend(table.Backends[4_321].ID, 5)

	var changes struct{ rule, backend, add route.Change }
	changes.rule.Rules.Changed = []*route.Rule{&rule}
	changes.backend.Backends.EndpointsChanged = []*route.Backend{backend}
	added := rule
	added.ID.Name = "another"
	changes.add.Rules.Added = []*route.Rule{&added}

	for _, c := range []struct {
		name   string
		change *route.Change
	}{{"rule", &changes.rule}, {"backend", &changes.backend}, {"add", &changes.add}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := compiled.Apply(c.change); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkApplyOneHost changes a rule where all 100,000 have one host.
func BenchmarkApplyOneHost(b *testing.B) {
	table := &route.Table{}
	for i := range largeHosts * largeRulesPerHost {
		table.Rules = append(table.Rules, &route.Rule{
			ID:       route.ID{Name: "rule", Rule: i},
			Host:     "app.example.com",
			Match:    route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: fmt.Sprintf("/tenant-%d/api", i)}},
			Response: &route.Response{Status: 204},
		})
	}
	compiled := mustCompile(b, table)
	rule := *table.Rules[54_321]
	rule.Match.Path.Value = "/other"
	change := route.Change{}
	change.Rules.Changed = []*route.Rule{&rule}
	b.Run("apply", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := compiled.Apply(&change); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("lookup", func(b *testing.B) {
		b.ReportAllocs()
		req := program.Request{Host: "app.example.com", Path: "/tenant-54320/api/users"}
		for b.Loop() {
			if compiled.Lookup(&req).Rule == nil {
				b.Fatal("no rule")
			}
		}
	})
}

func BenchmarkDiff(b *testing.B) {
	table := largeTable()
	changed := *table
	changed.Rules = append([]*route.Rule(nil), table.Rules...)
	rule := *changed.Rules[54_321]
	rule.Priority = 1
	changed.Rules[54_321] = &rule
	for b.Loop() {
		if change := route.Diff(table, &changed); len(change.Rules.Changed) != 1 {
			b.Fatal("wrong change")
		}
	}
}

// BenchmarkMemory reports the bytes that the table and the program hold for
// each rule.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		before := liveBytes()
		table := largeTable()
		between := liveBytes()
		compiled := mustCompile(b, table)
		after := liveBytes()
		b.ReportMetric(float64(between-before)/float64(len(table.Rules)), "table-B/rule")
		b.ReportMetric(float64(after-between)/float64(len(table.Rules)), "program-B/rule")
		runtime.KeepAlive(table)
		runtime.KeepAlive(compiled)
	}
}

func liveBytes() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
