package datagram_test

import (
	"context"
	"fmt"
	"net"
	"testing"

	"slipway.dev/slipway/internal/edge/datagram"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// dialFrom is a client with an address of its own.
func dialFrom(t *testing.T, relay *datagram.Relay, address string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(address)}}
	conn := must.Get(dialer.DialContext(t.Context(), "udp", relay.Address().String()))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// flood sends one datagram from each of many networks, more than there are flows.
func flood(t *testing.T, relay *datagram.Relay) {
	t.Helper()
	for i := range 40 {
		conn := dialFrom(t, relay, fmt.Sprintf("127.8.%d.1", i))
		must.Get(conn.Write([]byte("forged")))(t)
	}
}

// TestForged: datagrams with forged addresses, whose senders get no response, keep out
// neither a client that has a flow nor one that is new.
func TestForged(t *testing.T) {
	const flows = 8
	evictions := make(chan bool, 1000)
	relay, done, connects := start(t, echo(t), datagram.Config{MaxFlows: flows, Full: func(evicted bool) { evictions <- evicted }})
	known := dialFrom(t, relay, "127.1.1.1")
	exchange(t, known, "one")
	exchange(t, known, "two")
	flood(t, relay)
	for i := range 5 {
		fresh := dialFrom(t, relay, fmt.Sprintf("127.2.%d.1", i))
		exchange(t, fresh, "new")
	}
	before := connects.Load()
	exchange(t, known, "three")
	if connects.Load() != before {
		t.Error("the flow of a client that goes on was ended")
	}
	if len(evictions) == 0 {
		t.Error("the limit was not reached")
	}
	// All but those that there may be end at once, and not after a minute.
	programs.Eventually(t, func(context.Context) error {
		if open := connects.Load() - int64(len(done)); open > flows {
			return fmt.Errorf("%d flows are open", open)
		}
		return nil
	})
}

// TestNetworkWithAll: a network whose clients have all flows makes room for those of
// others, one by one, and gets no more itself.
func TestNetworkWithAll(t *testing.T) {
	const flows = 8
	relay, _, connects := start(t, echo(t), datagram.Config{MaxFlows: flows})
	var clients []net.Conn
	for i := range flows {
		one := dialFrom(t, relay, fmt.Sprintf("127.9.9.%d", i+1))
		exchange(t, one, "one")
		exchange(t, one, "goes on")
		clients = append(clients, one)
	}
	further := dialFrom(t, relay, "127.9.9.100")
	must.Get(further.Write([]byte("dropped")))(t)
	exchange(t, clients[0], "still there") // the relay reads in order, so it has seen both
	if connects.Load() != flows {
		t.Errorf("%d flows for a network at the limit", connects.Load())
	}
	var others []net.Conn
	for i := range flows / 2 {
		other := dialFrom(t, relay, fmt.Sprintf("127.3.%d.1", i))
		exchange(t, other, "other")
		exchange(t, other, "goes on")
		others = append(others, other)
	}
	for _, other := range others {
		exchange(t, other, "still there")
	}
	if connects.Load() != flows+flows/2 {
		t.Errorf("%d flows: others took each other's places", connects.Load())
	}
}

// TestIdleFirst: among equals the client that was idle for longest makes room.
func TestIdleFirst(t *testing.T) {
	relay, _, connects := start(t, echo(t), datagram.Config{MaxFlows: 3})
	var clients []net.Conn
	for i := range 3 {
		clients = append(clients, dialFrom(t, relay, fmt.Sprintf("127.4.%d.1", i)))
	}
	for _, text := range []string{"one", "two"} {
		for _, i := range []int{1, 2, 0} {
			exchange(t, clients[i], text)
		}
	}
	exchange(t, dialFrom(t, relay, "127.5.1.1"), "new")
	for _, i := range []int{2, 0} {
		exchange(t, clients[i], "three")
	}
	if connects.Load() != 4 {
		t.Errorf("there were %d flows: an active client made room", connects.Load())
	}
}
