package proxy

import (
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/route"
)

// TestRequestCounters: every request is counted once, also when many goroutines count.
func TestRequestCounters(t *testing.T) {
	one := new(requestCounters)
	if _, any := one.read(); any {
		t.Error("counters without requests have counts")
	}
	const clients, each = 8, 500
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for i := range each {
				one.observe([]int{200, 204, 404, 503, 0}[i%5], 3*time.Millisecond)
			}
		})
	}
	all.Wait()
	one.observe(99999, -time.Second)
	got, _ := one.read()
	if want := [6]uint64{0: 801, 2: 1600, 4: 800, 5: 800}; got.Statuses != want {
		t.Errorf("the statuses are %v, want %v", got.Statuses, want)
	}
	if at := trafficreport.BucketOf(3 * time.Millisecond); len(got.Spread) != at+1 || got.Spread[at] != clients*each || got.Spread[0] != 1 {
		t.Errorf("the spread is %v", got.Spread)
	}
}

// TestRequestCountersOverflow: a word that is full makes room.
func TestRequestCountersOverflow(t *testing.T) {
	one := new(requestCounters)
	const requests = 2*recentMask + 3
	for range requests {
		one.observe(200, time.Millisecond)
	}
	got, _ := one.read()
	if at := trafficreport.BucketOf(time.Millisecond); got.Statuses[2] != requests || got.Spread[at] != requests {
		t.Errorf("%d requests with %d times, want %d", got.Statuses[2], got.Spread[at], requests)
	}
}

// TestRequestCountersKeys: no two classes and buckets share a key.
func TestRequestCountersKeys(t *testing.T) {
	seen := map[uint32]bool{0: true}
	for class := range len(counts{}.statuses) {
		for bucket := range trafficreport.Buckets {
			key := recentKey(class, bucket)
			if seen[key] || key&recentMask != 0 {
				t.Fatalf("class %d, bucket %d: key %x", class, bucket, key)
			}
			seen[key] = true
			var sum counts
			sum.add(key | 1)
			if sum.statuses[class] != 1 || sum.spread[bucket] != 1 {
				t.Fatalf("class %d, bucket %d: counted as %v", class, bucket, sum)
			}
		}
	}
}

// TestRequestCountersCacheLines: the counters of a rule are two cache lines.
func TestRequestCountersCacheLines(t *testing.T) {
	const lines = 2 * 64
	if size := unsafe.Sizeof(requestCounters{}); size != lines {
		t.Errorf("the counters take %d bytes", size)
	}
}

// TestRequestCountersNeverFall: a reader sees no count go down while requests are
// counted, and nothing is lost when buckets take each other's words.
func TestRequestCountersNeverFall(t *testing.T) {
	one := new(requestCounters)
	const clients, each = 4, 2000
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for i := range each {
				one.observe(200+100*(i%3), time.Duration(1+i%60)*time.Millisecond)
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	var before trafficreport.Count
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		now, _ := one.read()
		for class, n := range before.Statuses {
			if now.Statuses[class] < n {
				t.Fatalf("class %d fell from %d to %d", class, n, now.Statuses[class])
			}
		}
		for bucket, n := range before.Spread {
			if now.Spread[bucket] < n {
				t.Fatalf("bucket %d fell from %d to %d", bucket, n, now.Spread[bucket])
			}
		}
		before = now
	}
	var spread uint32
	for _, n := range before.Spread {
		spread += n
	}
	if before.Requests() != clients*each || spread != clients*each {
		t.Errorf("%d requests and %d times of %d", before.Requests(), spread, clients*each)
	}
}

// TestCounterRegistry: a rule that is bound again keeps its counters, and those
// of a rule that is gone are dropped.
func TestCounterRegistry(t *testing.T) {
	var book counterRegistry
	id := route.ID{Kind: "Ingress", Namespace: "shop", Name: "cart"}
	kept := book.forRule(id)
	if book.forRule(id) != kept {
		t.Error("a rule has two sets of counters")
	}
	for i := range 1000 {
		book.forRule(route.ID{Name: "gone", Rule: i})
	}
	runtime.GC()
	if got := len(book.byRule.Live()); got != 1 {
		t.Errorf("%d sets of counters are alive", got)
	}
	runtime.KeepAlive(kept)
}

// BenchmarkRequestCounters is what counting adds to a request.
func BenchmarkRequestCounters(b *testing.B) {
	one := new(requestCounters)
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			one.observe(200, 3*time.Millisecond)
		}
	})
	b.Run("contended", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				one.observe(200, 3*time.Millisecond)
			}
		})
	})
}
