package main

import (
	"context"
	"fmt"
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
		seen.add(one.kind, time.Millisecond, one.request(t.Context(), "hello\n"))
	}
	server.Close()
	seen.add(one.kind, time.Second, one.request(t.Context(), "hello\n"))
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
