package trafficreport_test

import (
	"math"
	"testing"
	"time"

	"slipway.dev/slipway/internal/observe/trafficreport"
)

// TestBuckets: a longer time is never in an earlier bucket, and each has a place.
func TestBuckets(t *testing.T) {
	last := 0
	for took := time.Duration(0); took < 10*time.Minute; took += took/100 + time.Microsecond {
		bucket := trafficreport.BucketOf(took)
		if bucket < last || bucket >= trafficreport.Buckets {
			t.Fatalf("%v is in bucket %d after %d", took, bucket, last)
		}
		last = bucket
	}
	for took, want := range map[time.Duration]int{-1: 0, 0: 0, 127 * time.Microsecond: 0, 128 * time.Microsecond: 1, math.MaxInt64: trafficreport.Buckets - 1} {
		if got := trafficreport.BucketOf(took); got != want {
			t.Errorf("%v is in bucket %d, want %d", took, got, want)
		}
	}
}

// TestQuantile: what is read from the buckets is off by little.
func TestQuantile(t *testing.T) {
	if got := trafficreport.Quantile([]uint32(nil), 0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	for _, took := range []time.Duration{200 * time.Microsecond, 3 * time.Millisecond, 60 * time.Millisecond, 2 * time.Second, 50 * time.Second} {
		spread := make([]uint32, trafficreport.Buckets)
		spread[trafficreport.BucketOf(took)] = 1000
		for _, part := range []float64{0.01, 0.5, 0.99, 1} {
			got := trafficreport.Quantile(spread, part)
			if off := math.Abs(float64(got-took)) / float64(took); off > 0.25 {
				t.Errorf("%v of %v is %v, off by %.0f%%", part, took, got, off*100)
			}
		}
	}
	mixed := make([]uint32, trafficreport.Buckets)
	mixed[trafficreport.BucketOf(time.Millisecond)], mixed[trafficreport.BucketOf(time.Second)] = 980, 20
	if p50, p99 := trafficreport.Quantile(mixed, 0.5), trafficreport.Quantile(mixed, 0.99); p50 > 2*time.Millisecond || p99 < 900*time.Millisecond {
		t.Errorf("p50 %v, p99 %v", p50, p99)
	}
}

// TestSince: numbers that began at 0 again are still counted right.
func TestSince(t *testing.T) {
	earlier := trafficreport.Count{Statuses: [6]uint64{2: 10, 5: 1}, Spread: []uint32{math.MaxUint32, 4}}
	later := trafficreport.Count{Statuses: [6]uint64{2: 15, 5: 3}, Spread: []uint32{2, 4, 5}}
	got := later.Since(&earlier)
	if got.Statuses != [6]uint64{2: 5, 5: 2} || got.Requests() != 7 {
		t.Errorf("the statuses are %v", got.Statuses)
	}
	if got.Spread[0] != 3 || got.Spread[1] != 0 || got.Spread[2] != 5 {
		t.Errorf("the spread is %v", got.Spread)
	}
	var sum trafficreport.Count
	sum.Add(&got)
	sum.Add(&got)
	if sum.Requests() != 14 || sum.Spread[2] != 10 || got.Spread[2] != 5 {
		t.Errorf("the sum is %v, of %v", sum, got)
	}
}
