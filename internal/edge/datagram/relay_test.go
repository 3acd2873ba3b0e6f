package datagram_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/edge/datagram"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is a flow to a server of the test.
type peer struct {
	socket *net.UDPConn
	done   chan [2]int64
	left   *atomic.Bool // nil for one that stays
}

func (p *peer) Socket() *net.UDPConn { return p.socket }
func (p *peer) Current() bool        { return p.left == nil || !p.left.Load() }
func (p *peer) Done(up, down int64) {
	p.socket.Close()
	p.done <- [2]int64{up, down}
}

// echo starts a server that sends datagrams back.
func echo(t *testing.T) *net.UDPAddr {
	t.Helper()
	socket := must.Get(net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	programs.Background(t, func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := socket.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = socket.WriteToUDPAddrPort(buf[:n], from)
		}
	}, func() { socket.Close() })
	return socket.LocalAddr().(*net.UDPAddr)
}

// start starts a relay to a server, and returns the channel of flows that ended.
func start(t *testing.T, to *net.UDPAddr, config datagram.Config) (*datagram.Relay, chan [2]int64, *atomic.Int64) {
	t.Helper()
	done, connects := make(chan [2]int64, 100), &atomic.Int64{}
	config.Address = netip.MustParseAddrPort("127.0.0.1:0")
	config.Connect = func(netip.AddrPort) (datagram.Backend, error) {
		connects.Add(1)
		socket, err := net.DialUDP("udp", nil, to)
		if err != nil {
			return nil, err
		}
		return &peer{socket: socket, done: done}, nil
	}
	relay := must.Get(datagram.Listen(config))(t)
	programs.Background(t, relay.Serve, relay.Close)
	return relay, done, connects
}

// exchange sends a datagram until it comes back.
func exchange(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	programs.Eventually(t, func(context.Context) error {
		if _, err := conn.Write([]byte(text)); err != nil {
			return err
		}
		must.Do(t, conn.SetReadDeadline(time.Now().Add(time.Second))) // a datagram can be lost
		buf := make([]byte, 1<<16)
		n, err := conn.Read(buf)
		if err == nil && string(buf[:n]) != text {
			err = fmt.Errorf("got %q", buf[:n])
		}
		return err
	})
}

func dial(t *testing.T, relay *datagram.Relay) net.Conn {
	t.Helper()
	conn := must.Get(net.Dial("udp", relay.Address().String()))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestIdle: a flow without datagrams ends, with what it moved, and the next datagram
// starts another one.
func TestIdle(t *testing.T) {
	relay, done, connects := start(t, echo(t), datagram.Config{IdleTimeout: 50 * time.Millisecond})
	conn := dial(t, relay)
	exchange(t, conn, "one")
	if moved := <-done; moved[0] < 3 || moved[1] < 3 {
		t.Errorf("the flow moved %v bytes", moved)
	}
	exchange(t, conn, "two")
	if connects.Load() < 2 {
		t.Error("there was no second flow")
	}
}

// TestLeft: a client whose endpoint may get no more datagrams gets another one with its
// next datagram, and the flow to the old one ends. As long as it may, the flow stays.
func TestLeft(t *testing.T) {
	to, left := echo(t), &atomic.Bool{}
	done, connects := make(chan [2]int64, 100), &atomic.Int64{}
	relay := must.Get(datagram.Listen(datagram.Config{
		Address: netip.MustParseAddrPort("127.0.0.1:0"),
		Connect: func(netip.AddrPort) (datagram.Backend, error) {
			socket, err := net.DialUDP("udp", nil, to)
			if err != nil {
				return nil, err
			}
			made := &peer{socket: socket, done: done}
			if connects.Add(1) == 1 {
				made.left = left
			}
			return made, nil
		},
	}))(t)
	programs.Background(t, relay.Serve, relay.Close)
	conn := dial(t, relay)
	exchange(t, conn, "one")
	exchange(t, conn, "two")
	if connects.Load() != 1 {
		t.Errorf("there are %d flows to an endpoint that stays", connects.Load())
	}
	left.Store(true)
	exchange(t, conn, "three")
	if moved := <-done; moved[0] < 6 {
		t.Errorf("the flow that ended moved %v bytes", moved)
	}
	exchange(t, conn, "four")
	if connects.Load() != 2 {
		t.Errorf("there were %d flows", connects.Load())
	}
}

// TestLimit: at the limit a further client of a network that has all flows is dropped,
// and the clients of these go on.
func TestLimit(t *testing.T) {
	full := make(chan bool, 100)
	relay, _, connects := start(t, echo(t), datagram.Config{MaxFlows: 1, Full: func(evicted bool) { full <- evicted }})
	first := dial(t, relay)
	exchange(t, first, "one")
	exchange(t, first, "goes on")
	second := dial(t, relay)
	must.Get(second.Write([]byte("dropped")))(t)
	exchange(t, first, "two") // the relay reads in order, so it has seen both
	if connects.Load() != 1 {
		t.Errorf("there are %d flows", connects.Load())
	}
	if evicted := programs.Receive(t, full, "the limit"); evicted {
		t.Error("the flow of a client that goes on was ended")
	}
}

// TestRefused: a flow whose backend refuses datagrams ends at once.
func TestRefused(t *testing.T) {
	free := must.Get(net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	nowhere := free.LocalAddr().(*net.UDPAddr)
	must.Do(t, free.Close())
	relay, done, _ := start(t, nowhere, datagram.Config{})
	must.Get(dial(t, relay).Write([]byte("hello")))(t)
	if moved := <-done; moved[1] != 0 {
		t.Errorf("the flow moved %v bytes", moved)
	}
}

// TestTaken: an address that another program has is an error.
func TestTaken(t *testing.T) {
	taken := must.Get(net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	defer taken.Close()
	_, err := datagram.Listen(datagram.Config{Address: taken.LocalAddr().(*net.UDPAddr).AddrPort()})
	if _, ok := errors.AsType[*net.OpError](err); !ok {
		t.Errorf("got %v", err)
	}
}
