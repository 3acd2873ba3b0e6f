package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
)

// Slow readers report what they got, and a response that is not theirs as an error.
func TestSlowReaders(t *testing.T) {
	var status atomic.Int64
	status.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10000000")
		w.WriteHeader(int(status.Load()))
		_, _ = io.Copy(w, io.LimitReader(zeros{}, hugeBody)) // the client leaves
	}))
	defer server.Close()
	o := order{site: &site{address: server.Listener.Addr().String(), routes: scenario{}.routeKeys()}}
	finish := must.Get(startReaders(t.Context(), o, 3, time.Millisecond))(t)
	var got sample
	finish(&got)
	if got.Errors != 0 || got.Reason != "" {
		t.Errorf("got %+v", got)
	}
	status.Store(http.StatusServiceUnavailable)
	finish = must.Get(startReaders(t.Context(), o, 3, time.Millisecond))(t)
	got = sample{Errors: 1}
	finish(&got)
	if got.Errors != 4 || !strings.Contains(got.Reason, "503") {
		t.Errorf("got %+v", got)
	}
}

// zeros is a long body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// The limit of open files bounds both kinds of connections.
func TestPlan(t *testing.T) {
	for _, test := range []struct{ asked, files, idle, active int }{
		{50_000, 51_000, 50_000, 10_000},
		{50_000, 20_000, 19_000, 9_500},
		{5000, 20_000, 5000, 9_500},
		{5000, 1000, 1, 1},
	} {
		var r report
		r.plan(test.asked, test.files)
		if r.IdleRequested != test.asked || r.Idle != test.idle || r.Active != test.active {
			t.Errorf("%+v: got %d idle of %d, %d active", test, r.Idle, r.IdleRequested, r.Active)
		}
	}
}
