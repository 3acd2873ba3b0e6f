package edge_test

import (
	"bytes"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/internal/secret"
)

// TestLoop: a request that has passed this edge, or many edges, is refused, however
// the list of its hops is written. Backends get the list with the edge's own hop.
func TestLoop(t *testing.T) {
	table := tableFor(edgetest.Backend(t, edgetest.Echo))
	s := start(t, table)
	own := hopOf(t, s.address)
	others := func(count int) string {
		return strings.TrimSuffix(strings.Repeat("slipway-0011223344556677, ", count), ", ")
	}
	for _, test := range []struct {
		lines  string
		status int
	}{
		{"", http.StatusOK},
		{"CDN-Loop: " + own + "\r\n", http.StatusLoopDetected},
		{"cdn-loop: other.example;a=b," + own + "; c=d\r\n", http.StatusLoopDetected},
		{"CDN-Loop: other.example\r\nCDN-Loop: " + own + "\r\n", http.StatusLoopDetected},
		{"CDN-Loop: " + own + "\r\nConnection: cdn-loop\r\n", http.StatusLoopDetected},
		{"CDN-Loop: " + own + "x\r\n", http.StatusOK},
		{"X-Loop: " + own + "\r\n", http.StatusOK},
		{"CDN-Loop: " + others(7) + "\r\n", http.StatusOK},
		{"CDN-Loop: " + others(4) + "\r\nCDN-Loop: " + others(4) + "\r\n", http.StatusLoopDetected},
		{"CDN-Loop: " + strings.Repeat("a.example, ", 50) + "b\r\n", http.StatusOK},
		{"CDN-Loop: ,,\r\n", http.StatusOK},
	} {
		w := edgetest.Dial(t, s.address)
		w.Send("GET / HTTP/1.1\r\nHost: x\r\n" + test.lines + "\r\n")
		response, body := w.Response("GET")
		if response.StatusCode != test.status {
			t.Errorf("%q: status %d, want %d", test.lines, response.StatusCode, test.status)
		}
		if test.status == http.StatusOK && !strings.Contains(body, "Cdn-Loop: "+own+"\n") {
			t.Errorf("%q: the backend got\n%s", test.lines, body)
		}
	}
	w := edgetest.Dial(t, s.address)
	w.Send("GET / HTTP/1.1\r\nHost: x\r\nCDN-Loop: other.example\r\nConnection: cdn-loop\r\n\r\n")
	if _, body := w.Response("GET"); !strings.Contains(body, "Cdn-Loop: other.example\n") {
		t.Errorf("the hop of another proxy is lost:\n%s", body)
	}
}

// hopOf is the hop that a backend behind an edge gets.
func hopOf(t *testing.T, address string) string {
	t.Helper()
	w := edgetest.Dial(t, address)
	w.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	_, body := w.Response("GET")
	_, hop, _ := strings.Cut(body, "Cdn-Loop: ")
	hop, _, _ = strings.Cut(hop, "\n")
	if !strings.HasPrefix(hop, "slipway-") || len(hop) != len("slipway-")+16 {
		t.Fatalf("the hop is %q in\n%s", hop, body)
	}
	return hop
}

// TestLoopOfReplicas: replicas are one hop if they share a secret.
func TestLoopOfReplicas(t *testing.T) {
	table := tableFor(edgetest.Backend(t, edgetest.Echo))
	replica := func(shared string) string {
		options := edge.Options{SharedSecret: secret.New(shared)}
		return hopOf(t, startWith(t, table, options, edge.DefaultEntryPoint("web", "127.0.0.1:0")).address)
	}
	one, two := strings.Repeat("a", 32), string(bytes.Repeat([]byte{'b'}, 32))
	if a, b, c := replica(one), replica(one), replica(two); a != b || a == c {
		t.Errorf("hops %s, %s with the same secret, %s with another", a, b, c)
	}
	if a, b := hopOf(t, start(t, table).address), hopOf(t, start(t, table).address); a == b {
		t.Errorf("two edges without a secret have the hop %s", a)
	}
}

// TestLoopHeaderStays: no rule can remove the hop, which would hide a loop.
func TestLoopHeaderStays(t *testing.T) {
	table := tableFor(edgetest.Backend(t, edgetest.Echo))
	table.Rules[0].Policies = []route.Policy{{RequestHeaders: &route.RequestHeaders{Remove: []string{"cdn-loop"}}}}
	s := start(t, tableFor(edgetest.Backend(t, edgetest.Echo)))
	if err := s.Apply(table); err == nil {
		w := edgetest.Dial(t, s.address)
		w.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if response, body := w.Response("GET"); response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("status %d, and the backend got\n%s", response.StatusCode, body)
		}
	}
}

// TestOwnAddress: an endpoint that is an entry point of the edge gets no request,
// and another port of the machine does.
func TestOwnAddress(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", ":0"} {
		other := edgetest.Backend(t, edgetest.Echo)
		s := startAt(t, tableFor(other), edge.DefaultEntryPoint("web", listen))
		own := netip.MustParseAddrPort(s.address)
		at := netip.AddrPortFrom(other.Addr(), own.Port())
		for endpoint, want := range map[netip.AddrPort]int{other: http.StatusOK, at: http.StatusBadGateway} {
			if err := s.Apply(tableFor(endpoint)); err != nil {
				t.Fatal(err)
			}
			w := edgetest.Dial(t, at.String())
			w.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			if response, _ := w.Response("GET"); response.StatusCode != want {
				t.Errorf("listening on %s, endpoint %s: status %d, want %d", listen, endpoint, response.StatusCode, want)
			}
		}
	}
}
