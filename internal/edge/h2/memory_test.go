package h2_test

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"
	"weak"

	"slipway.dev/slipway/internal/edge/bridge/bridgetest"
	"slipway.dev/slipway/internal/edge/h2"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// tracked is a connection that can be looked for in memory.
type tracked struct{ net.Conn }

// TestEndedConnectionIsForgotten: nothing keeps a connection in memory once it
// has ended, however it did. Clients that come again and again would fill it.
func TestEndedConnectionIsForgotten(t *testing.T) {
	entered := make(chan struct{})
	s := must.Get(h2.New(h2.Config{Handler: lasting(func(ctx context.Context) {
		close(entered)
		<-ctx.Done()
	})}))(t)
	listener := programs.Listen(t, "")
	served := make(chan weak.Pointer[tracked])
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			close(served)
			return
		}
		kept := &tracked{conn}
		pointer := weak.Make(kept)
		s.ServeConn(t.Context(), kept)
		served <- pointer
	}()
	p := dial(t, &server{Server: s, addr: listener.Addr().String()})
	must.Do(t, p.open(1, true))
	<-entered
	p.conn.Close() // with a request that runs
	pointer := <-served
	give := time.After(bridgetest.Timeout)
	for pointer.Value() != nil {
		runtime.GC()
		select {
		case <-give:
			t.Fatal("it is still there")
		case <-time.After(time.Millisecond):
		}
	}
}
