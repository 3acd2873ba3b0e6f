package resilience

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// TestUnsolicited: a response that no request caused and that comes while a
// connection is in the pool is no client's. A client that makes a backend read one
// request as two could otherwise choose what another client gets.
func TestUnsolicited(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	backend := edgeprocess.Backend("late", listener.Addr().(*net.TCPAddr).AddrPort())
	edge := edgeprocess.Start(t, edgeprocess.Options{Table: &route.Table{
		Rules:    []*route.Rule{{ID: route.ID{Name: "all"}, Backends: edgeprocess.To(backend)}},
		Backends: []*route.Backend{backend},
	}})
	// The first connection responds, waits until the client has its response, and
	// then responds once more.
	answered, said := make(chan struct{}), make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for number := 0; ; number++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			if _, err := io.WriteString(conn, plain(fmt.Sprint(number))); err != nil {
				return
			}
			if number == 0 {
				<-answered
				_, err := io.WriteString(conn, poison)
				said <- err
			}
		}
	}()
	defer func() {
		_ = listener.Close()
		edge.Kill()
		<-ended
	}()
	for number := range 2 {
		c := &poolClient{address: edge.Address("web")}
		status, err := c.try(mix{kind: "plain", method: "GET"}, fmt.Sprint(number))
		c.hangUp()
		if err != nil || status != http.StatusOK {
			t.Fatalf("request %d: status %d, %v", number, status, err)
		}
		if number == 0 {
			close(answered)
			must.Do(t, <-said)
		}
	}
}
