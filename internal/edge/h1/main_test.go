package h1_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/edge/h1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parse reads a request head in one go.
func parse(t testing.TB, raw string) *h1.Head {
	t.Helper()
	limits := h1.DefaultLimits()
	var head h1.Head
	n, err := head.Parse([]byte(raw), &limits)
	if err != nil {
		t.Fatalf("parse %q: %v", raw, err)
	}
	if n == 0 {
		t.Fatalf("parse %q: not complete", raw)
	}
	return &head
}

// parseSplit reads a request head that comes in two pieces, from two buffers,
// the first of which is overwritten in between.
func parseSplit(head *h1.Head, raw []byte, at int, limits *h1.Limits) (int, error) {
	first := bytes.Clone(raw[:at])
	n, err := head.Parse(first, limits)
	if n > 0 || err != nil {
		return n, err
	}
	for i := range first {
		first[i] = '#'
	}
	return head.Parse(bytes.Clone(raw), limits)
}

// describe prints the parts of a head, for comparing.
func describe(head *h1.Head) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s 1.%d\n", head.Method(), head.Target(), head.Minor)
	fmt.Fprintf(&b, "host %s authority %s path %s query %s\n", head.URI.Host, head.URI.Authority, head.URI.Path, head.URI.Query)
	fmt.Fprintf(&b, "framing %d %d keep %v continue %v trailers %v upgrade %q\n",
		head.Framing, head.Length, head.KeepAlive, head.ExpectContinue, head.AcceptsTrailers, head.Upgrade())
	for i := range head.Len() {
		fmt.Fprintf(&b, "%d %s: %s\n", head.ID(i), head.Name(i), head.Value(i))
	}
	return b.String()
}

// readBody feeds body with raw, step bytes at a time, and returns what it
// passes on and how much it used.
func readBody(body *h1.Body, raw []byte, step int) (passed []byte, used int, err error) {
	for avail := 0; ; {
		for {
			pass, n, err := body.Next(bytes.Clone(raw[used:avail]))
			if err != nil {
				return passed, used, err
			}
			passed = append(passed, pass...)
			used += n
			if n == 0 {
				break
			}
		}
		if body.Done() {
			return passed, used, nil
		}
		if avail == len(raw) {
			return passed, used, body.End()
		}
		avail = min(avail+step, len(raw))
	}
}
