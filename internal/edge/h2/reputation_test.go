package h2_test

import (
	"bytes"
	"context"
	"net/netip"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/h2"
	"slipway.dev/slipway/internal/must"
)

// resetsUntilEnd opens streams and resets them until the server has enough, and
// counts those that it took. The server reads behind, so the count is that of
// the server: the last stream that GOAWAY names.
func resetsUntilEnd(t *testing.T, s *server) uint32 {
	t.Helper()
	p := dial(t, s)
	roundTrip(t, p)
	for stream := uint32(1); stream < 2000; stream += 2 {
		if p.open(stream, false) != nil || p.WriteRSTStream(stream, http2.ErrCodeCancel) != nil {
			break
		}
	}
	if reason := <-s.reasons; reason != h2.ReasonResets {
		t.Fatalf("it ended because of %s", reason)
	}
	return p.await(t, "GOAWAY", func(e event) bool { return e.kind == http2.FrameGoAway }).last
}

// TestProbation: who floods again after a flood gets less far, and who shares
// the address and does not is served as before.
func TestProbation(t *testing.T) {
	for _, c := range []struct {
		name    string
		trusted bool
	}{{"client", false}, {"trusted proxy", true}} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, h2.Config{
				Handler:      waits(), // a request that has its response before the reset would not count
				TrustedProxy: func(netip.Addr) bool { return c.trusted },
			}, nil)
			first := resetsUntilEnd(t, s)
			second := resetsUntilEnd(t, s)
			if shorter := second < first/5; shorter == c.trusted {
				t.Errorf("the first flood got to stream %d, the second to %d", first, second)
			}
			honest := client(t, nil)
			for range 60 {
				response := must.Get(honest.Post("http://"+s.addr, "", nil))(t)
				response.Body.Close()
			}
		})
	}
}

// TestBide: of requests that come all at once on a new connection and are cut
// off again, few are served.
func TestBide(t *testing.T) {
	const streams = 100
	var served atomic.Int32
	s := start(t, h2.Config{Handler: lasting(func(ctx context.Context) {
		served.Add(1)
		<-ctx.Done()
	})}, nil)
	p := dial(t, s)
	// All at once, and cut off at once, so that a busy machine has no effect on it.
	var opened, reset bytes.Buffer
	open, cut := http2.NewFramer(&opened, nil), http2.NewFramer(&reset, nil)
	for i := range uint32(streams) {
		_ = open.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: p.head(), EndHeaders: true, EndStream: true})
		_ = cut.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
	}
	for _, wire := range []*bytes.Buffer{&opened, &reset} {
		must.Get(p.conn.Write(wire.Bytes()))(t)
	}
	roundTrip(t, p)
	if n := served.Load(); n >= streams/2 {
		t.Errorf("%d of %d were served", n, streams)
	}
}

// TestBideIsShort: requests that are meant are all served, however many come at
// once and however long they last.
func TestBideIsShort(t *testing.T) {
	const streams = 60
	entered := make(chan struct{}, streams)
	s := start(t, h2.Config{Handler: lasting(func(ctx context.Context) {
		entered <- struct{}{}
		<-ctx.Done()
	})}, nil)
	p := dial(t, s)
	for i := range uint32(streams) {
		must.Do(t, p.open(2*i+1, true))
	}
	for range streams {
		<-entered
	}
}
