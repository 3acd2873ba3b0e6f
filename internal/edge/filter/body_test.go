package filter_test

import (
	"testing"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/route"
)

func TestBodyLimits(t *testing.T) {
	limit := func(most int64) route.Policy { return route.Policy{BodyLimit: &route.BodyLimit{MaxBytes: most}} }
	const fixed, chunked = "POST / HTTP/1.1\nHost: a.example\nContent-Length: 5\n\n", "POST / HTTP/1.1\nHost: a.example\nTransfer-Encoding: chunked\n\n"
	tests := []struct {
		name     string
		policies []route.Policy
		request  string
		status   int
		most     int64
	}{
		{"stream", []route.Policy{limit(10)}, chunked, 0, 10},
		{"least of two", []route.Policy{limit(10), limit(7), limit(20)}, chunked, 0, 7},
		{"length", []route.Policy{limit(5)}, fixed, 0, 5},
		{"length too large", []route.Policy{limit(10), limit(4)}, fixed, 413, 0},
		{"no body", []route.Policy{limit(10)}, get("/"), 0, 0},
		{"none allowed, none sent", []route.Policy{limit(0)}, get("/"), 0, 0},
		{"none allowed, length 0", []route.Policy{limit(0)}, "POST / HTTP/1.1\nHost: a.example\nContent-Length: 0\n\n", 0, 0},
		{"none allowed, some sent", []route.Policy{limit(0)}, fixed, 413, 0},
		{"none allowed, stream", []route.Policy{limit(0)}, chunked, 413, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := begin(t, compile(t, filter.NewCounters(start), test.policies...), test.request)
			if r.status() != test.status {
				t.Fatalf("status %d", r.status())
			}
			if test.status == 0 && r.x.MaxBody != test.most {
				t.Errorf("the body is bounded by %d", r.x.MaxBody)
			}
		})
	}
}
