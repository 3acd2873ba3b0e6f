package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestLoadCountsFailures: a client counts every response that is not the right one:
// an error status, another body, a connection that breaks, and a server that is gone.
func TestLoadCountsFailures(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked.Add(1) {
		case 1:
			w.WriteHeader(http.StatusBadGateway)
		case 2:
			_, _ = fmt.Fprintln(w, "another")
		case 3:
			panic(http.ErrAbortHandler)
		default:
			_, _ = fmt.Fprintln(w, "hello")
		}
	}))
	// A request on a new connection is not sent again by the library.
	one := client{kind: "test", url: server.URL, transport: &http.Transport{DisableKeepAlives: true}}
	seen := &counters{load: Load{Kinds: map[string]int{}}}
	for range 5 {
		_, err := one.request(t.Context(), "hello\n")
		seen.add(sample{kind: one.kind, took: time.Millisecond, err: err})
	}
	server.Close()
	_, err := one.request(t.Context(), "hello\n")
	seen.add(sample{kind: one.kind, took: time.Second, err: err})
	if got := seen.load; got.Requests != 6 || got.Failures != 4 || got.Slowest != time.Second || got.Kinds["test"] != 6 {
		t.Errorf("the client has seen %+v", got)
	}
	for i, part := range []string{"502", "another", "EOF", "refused"} {
		if got := seen.load.Errors[i]; !strings.Contains(got, part) {
			t.Errorf("failure %d is %q, without %q", i, got, part)
		}
	}
}

// TestLoadEnds: clients stop when the context ends, and what they have begun counts.
func TestLoadEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		_, _ = fmt.Fprintln(w, "hello")
	}))
	defer server.Close()
	seen := &counters{load: Load{Kinds: map[string]int{}}}
	client{kind: "test", url: server.URL, transport: &http.Transport{DisableKeepAlives: true}}.send(ctx, seen, "hello\n")
	if seen.load.Requests == 0 || seen.load.Failures != 0 {
		t.Errorf("the client has seen %+v", seen.load)
	}
}

// TestSpans: a revision's span has every request from its first response to its last one, and
// a failure of another revision, or of none, counts only in there.
func TestSpans(t *testing.T) {
	var samples []sample
	at := func(second int, revision string, err error) {
		samples = append(samples, sample{revision: revision, ended: time.Unix(int64(second), 0), err: err})
	}
	failed := errors.New("500")
	at(1, "", failed)
	at(5, "bad", nil) // clients end their requests in any order
	at(2, "bad", nil)
	at(3, "good", nil)
	at(4, "", failed)
	at(6, "", failed)
	at(7, "good", nil)
	want := map[string]Span{"bad": {3 * time.Second, 4, 1}, "good": {4 * time.Second, 5, 2}}
	if got := spans(samples); !maps.Equal(got, want) {
		t.Errorf("the spans are %v, and not %v", got, want)
	}
}

// TestFault: a part of the requests fails, spread evenly, and no probe does.
func TestFault(t *testing.T) {
	server := httptest.NewServer(web("hello", "two", 5))
	defer server.Close()
	failed := 0
	for i := range 100 {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("User-Agent", map[bool]string{true: "kube-probe/1.37", false: "e2e"}[i%5 == 0])
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close() // only the head counts here
		if response.StatusCode != http.StatusOK {
			failed++
		}
		if got := response.Header.Get(revisionHeader); got != "two" {
			t.Fatalf("the revision is %q", got)
		}
	}
	if failed != 4 {
		t.Errorf("%d of 80 requests failed, and not 5 %%", failed)
	}
}

// TestStableLines: what is compared of links and rules does not change by itself.
func TestStableLines(t *testing.T) {
	for _, one := range []struct{ command, line, want string }{
		{"ip", "4: veth12ab@if2: <UP> mtu 1500 state UP", "link veth12ab"},
		{"ip", "1: lo: <LOOPBACK,UP> mtu 65536", "link lo"},
		{"ip", "3: pods0: <BROADCAST> mtu 1500", ""},
		{"iptables-save", "# Completed on Sun Nov 15 19:00:00 2026", ""},
		{"iptables-save", ":KUBE-SERVICES - [0:0]", ""},
		{"iptables-save", "-A KUBE-SERVICES -d 10.96.0.1/32 -j KUBE-SVC", "rule -A KUBE-SERVICES -d 10.96.0.1/32 -j KUBE-SVC"},
	} {
		if got := stable(one.command, one.line+"\n"); got != one.want {
			t.Errorf("%q is %q, not %q", one.line, got, one.want)
		}
	}
}
