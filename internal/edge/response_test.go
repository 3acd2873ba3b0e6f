package edge_test

import (
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/route"
)

// TestConfiguredBody: a response that was asked for carries its body, as plain
// text, and a HEAD has only its length.
func TestConfiguredBody(t *testing.T) {
	table := &route.Table{Rules: []*route.Rule{{
		ID: route.ID{Name: "token"}, Host: "token.example", Match: route.Match{Path: route.PathMatch{Type: route.PathExact, Value: "/token"}},
		Response: &route.Response{Status: 200, Reason: route.ReasonConfigured, Body: "token.thumbprint"},
	}}}
	w := edgetest.Dial(t, start(t, table).address)
	w.Send("GET /token HTTP/1.1\r\nHost: token.example\r\n\r\n")
	response, body := w.Response("GET")
	if response.StatusCode != 200 || body != "token.thumbprint" || response.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("got %d %v and %q", response.StatusCode, response.Header, body)
	}
	w.Send("HEAD /token HTTP/1.1\r\nHost: token.example\r\n\r\n")
	if response, body := w.Response("HEAD"); response.ContentLength != 16 || body != "" {
		t.Errorf("HEAD: got length %d and %q", response.ContentLength, body)
	}
}
