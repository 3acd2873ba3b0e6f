package edge_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/route"
)

// TestBackendLeaves: a request whose rule gets another backend while its body arrives goes
// to that one, unless the filters of the rule changed too.
func TestBackendLeaves(t *testing.T) {
	buffering := route.Policy{Buffering: &route.Buffering{MaxRequestBytes: 1 << 10}}
	for _, test := range []struct {
		name     string
		policies []route.Policy
		status   int
	}{
		{"the same filters", []route.Policy{buffering}, http.StatusOK},
		{"other filters", []route.Policy{buffering, {IPFilter: &route.IPFilter{Deny: loopback}}}, http.StatusServiceUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := start(t, &route.Table{})
			first := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, edgetest.Echo)}, buffering)
			rule, old := first.Rules[0], first.Backends[0]
			change := &route.Change{}
			change.Rules.Added, change.Backends.Added = []*route.Rule{rule}, []*route.Backend{old}
			update(t, s, change)
			w := edgetest.Dial(t, s.address)
			w.Send("PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
			// The body is read after the rule was found and its filters ran.
			if response, err := http.ReadResponse(w.Reader, nil); err != nil || response.StatusCode != http.StatusContinue {
				t.Fatalf("got %v and %v, want 100", response, err)
			}
			changed, id := *rule, route.BackendID{Name: "new", Port: 1}
			changed.Policies, changed.Backends = test.policies, []route.BackendRef{{Backend: id}}
			change = &route.Change{}
			change.Rules.Changed = []*route.Rule{&changed}
			change.Backends.Added = []*route.Backend{{ID: id, Endpoints: []route.Endpoint{{Address: edgetest.Backend(t, edgetest.Echo)}}}}
			change.Backends.Removed = []route.BackendID{old.ID}
			update(t, s, change)
			w.Send("hello")
			response, body := w.Response("PUT")
			if response.StatusCode != test.status || test.status == http.StatusOK && !strings.HasPrefix(body, "PUT / hello\n") {
				t.Errorf("got %d %q, want %d", response.StatusCode, body, test.status)
			}
		})
	}
}

// update applies a change that has no problems.
func update(t *testing.T, s *running, change *route.Change) {
	t.Helper()
	if feedback := s.Update(change); len(feedback.Problems) > 0 {
		t.Fatal(feedback.Problems)
	}
}
