package edge_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// Each of a rule's timeouts ends the wait that it is for, and an endpoint that
// is only slow to respond keeps its connection for other rules.
func TestTimeouts(t *testing.T) {
	const short = route.Duration(50 * time.Millisecond)
	release := make(chan struct{})
	slow := edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/silent":
		case "/half":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
		default:
			_, _ = io.WriteString(w, "quick")
			return
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(release) })
	tests := []struct {
		name     string
		timeouts route.Timeouts
	}{
		{"header", route.Timeouts{Header: short}},
		{"attempt", route.Timeouts{Attempt: short}},
		{"total", route.Timeouts{Total: short}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			table := tableFor(slow)
			// The other rule has no timeout: on a busy machine, a quick response
			// may take longer than the short one.
			quick := *table.Rules[0]
			quick.ID.Name, quick.Match.Path.Value = "quick", "/quick"
			table.Rules[0].Timeouts = test.timeouts
			table.Rules = append(table.Rules, &quick)
			s := start(t, table)
			w := edgetest.Dial(t, s.address)
			w.Send("GET /silent HTTP/1.1\r\nHost: x\r\n\r\n")
			if response, _ := w.Response("GET"); response.StatusCode != 504 {
				t.Errorf("got %d, want 504", response.StatusCode)
			}
			w.Send("GET /quick HTTP/1.1\r\nHost: x\r\n\r\n")
			if response, body := w.Response("GET"); response.StatusCode != 200 || body != "quick" {
				t.Errorf("got %d %q", response.StatusCode, body)
			}
		})
	}
	for name, timeouts := range map[string]route.Timeouts{
		"idle": {Idle: short}, "attempt in the body": {Attempt: short}, "total in the body": {Total: short},
	} {
		t.Run(name, func(t *testing.T) {
			table := tableFor(slow)
			table.Rules[0].Timeouts = timeouts
			s := start(t, table)
			w := edgetest.Dial(t, s.address)
			w.Send("GET /half HTTP/1.1\r\nHost: x\r\n\r\n")
			response := must.Get(http.ReadResponse(w.Reader, nil))(t)
			defer response.Body.Close()
			if got, err := io.ReadAll(response.Body); err != io.ErrUnexpectedEOF || string(got) != "half" {
				t.Errorf("got %q and %v, want a body that is cut", got, err)
			}
		})
	}
}
