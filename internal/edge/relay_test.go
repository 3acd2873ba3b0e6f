package edge_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// stream returns a TCP route of a listener to a backend, and adds both to a change.
func stream(change *route.Change, listener *route.Listener, name string, mode route.TLSMode, endpoints ...netip.AddrPort) *route.TCPRoute {
	id := route.BackendID{Namespace: "shop", Name: name, Port: 1, Variant: "tcp"}
	backend := &route.Backend{ID: id}
	for _, endpoint := range endpoints {
		backend.Endpoints = append(backend.Endpoints, route.Endpoint{Address: endpoint})
	}
	tcp := &route.TCPRoute{
		ID: route.TCPRouteID{Kind: "TLSRoute", Namespace: "shop", Name: name}, Listener: listener.ID, TLS: mode,
		Backends: []route.BackendRef{{Backend: id, Weight: 1}},
	}
	change.Backends.Added = append(change.Backends.Added, backend)
	change.TCPRoutes.Added = append(change.TCPRoutes.Added, tcp)
	return tcp
}

// update applies a change without problems.
func (e *running) update(t *testing.T, change *route.Change) {
	t.Helper()
	if feedback := e.Update(change); len(feedback.Problems) > 0 {
		t.Fatal(feedback.Problems)
	}
}

// requireClosed expects that a connection is closed without a byte.
func requireClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	defer conn.Close()
	if got, err := io.ReadAll(conn); len(got) > 0 || errors.Is(err, net.ErrClosed) {
		t.Errorf("the connection gets %q %v", got, err)
	}
}

// TestRawTLS: connections of a raw listener with TLS are decrypted or passed on by
// server name. Those that no route takes are closed, and never read as HTTP.
func TestRawTLS(t *testing.T) {
	e := startListeners(t)
	authority := pkitest.NewAuthority(t)
	own, edges := authority.Issue(t, "a.passed.example", "b.a.passed.example").TLS(t), authority.Issue(t, "terminated.example")
	listener := listenerAt(t, "tls")
	id := route.CertificateID{Namespace: "infra", Name: "cert"}
	listener.TLS, listener.Raw, listener.Certificates = true, true, []route.ListenerCertificate{{Certificate: id, Host: "terminated.example"}}
	change := &route.Change{}
	change.Listeners.Added = []*route.Listener{listener}
	change.Certificates.Added = []*route.Certificate{{ID: id, Chain: edges.Chain, Key: route.NewSecret(edges.Key)}}
	passed := speaker(t, "passed\n", func(conn net.Conn) net.Conn {
		return tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{own}})
	})
	stream(change, listener, "passed", route.TLSPassthrough, passed).ServerName = "*.passed.example"
	stream(change, listener, "decrypted", route.TLSTerminate, speaker(t, "decrypted\n", asIs)).ServerName = "terminated.example"
	closing := stream(change, listener, "closing", route.TLSPassthrough)
	closing.ServerName = "none.passed.example"
	closing.Backends = []route.BackendRef{{Status: 500, Weight: 1}}
	e.update(t, change)
	for name, greeting := range map[string]string{"a.passed.example": "passed\n", "b.a.passed.example": "passed\n", "terminated.example": "decrypted\n"} {
		t.Run(name, func(t *testing.T) {
			conn := must.Get(tls.Dial("tcp", listener.Address.String(), &tls.Config{ServerName: name, RootCAs: authority.Pool}))(t)
			talk(t, conn, greeting)
		})
	}
	for _, name := range []string{"none.passed.example", "passed.example", "other.example"} {
		if conn, err := tls.Dial("tcp", listener.Address.String(), &tls.Config{ServerName: name, InsecureSkipVerify: true}); err == nil {
			conn.Close()
			t.Errorf("%s is served", name)
		}
	}
	plain := must.Get(net.Dial("tcp", listener.Address.String()))(t)
	must.Get(io.WriteString(plain, "GET / HTTP/1.1\r\nHost: a.passed.example\r\n\r\n"))(t)
	requireClosed(t, plain)
}

// TestRawTCP: all connections of a raw listener go to the oldest route, by weight; the
// share without a backend, and all without a route, are closed.
func TestRawTCP(t *testing.T) {
	e := startListeners(t)
	listener := listenerAt(t, "tcp")
	listener.Raw = true
	change := &route.Change{}
	change.Listeners.Added = []*route.Listener{listener}
	tcp := stream(change, listener, "db", route.TLSPlain, speaker(t, "ready\n", asIs))
	e.update(t, change)
	talk(t, must.Get(net.Dial("tcp", listener.Address.String()))(t), "ready\n")

	half := *tcp
	half.Backends = []route.BackendRef{tcp.Backends[0], {Status: 500, Weight: 1}}
	change = &route.Change{}
	change.TCPRoutes.Changed = []*route.TCPRoute{&half}
	e.update(t, change)
	served := 0
	for range 10 {
		conn := must.Get(net.Dial("tcp", listener.Address.String()))(t)
		greeting := make([]byte, len("ready\n"))
		if _, err := io.ReadFull(conn, greeting); err == nil {
			served++
		}
		conn.Close()
	}
	if served != 5 {
		t.Errorf("%d of 10 connections are served", served)
	}

	change = &route.Change{}
	change.TCPRoutes.Removed = []route.TCPRouteID{tcp.ID}
	e.update(t, change)
	requireClosed(t, must.Get(net.Dial("tcp", listener.Address.String()))(t))
}

// datagrams starts a backend for UDP, which sends each datagram back with its name and
// the address that it came from.
func datagrams(t *testing.T, name string) netip.AddrPort {
	t.Helper()
	socket := must.Get(net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	programs.Background(t, func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := socket.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = socket.WriteToUDPAddrPort(fmt.Appendf(nil, "%s %s %s", name, from, buf[:n]), from)
		}
	}, func() { socket.Close() })
	return socket.LocalAddr().(*net.UDPAddr).AddrPort()
}

// exchange sends a datagram until there is a response, and returns who responded, and
// to which address.
func exchange(t *testing.T, conn net.Conn, text string) (name, peer string) {
	t.Helper()
	buf := make([]byte, 1<<16)
	programs.Eventually(t, func(context.Context) error {
		if _, err := io.WriteString(conn, text); err != nil {
			return err
		}
		// A datagram can be lost, so the wait for a response is short.
		must.Do(t, conn.SetReadDeadline(time.Now().Add(time.Second)))
		n, err := conn.Read(buf)
		if err != nil {
			return err
		}
		var got string
		if _, err := fmt.Sscanf(string(buf[:n]), "%s %s %s", &name, &peer, &got); err != nil || got != text {
			return fmt.Errorf("the response is %q: %w", buf[:n], err)
		}
		return nil
	})
	return name, peer
}

// TestRelay: the datagrams of a client are one flow to one backend, responses find their
// client, and a flow leaves a backend that leaves the table, or whose route changed.
func TestRelay(t *testing.T) {
	e := startListeners(t)
	listener := listenerAt(t, "udp")
	listener.ID.UDP, listener.Raw = true, true
	change := &route.Change{}
	change.Listeners.Added = []*route.Listener{listener}
	first, second := datagrams(t, "first"), datagrams(t, "second")
	udp := stream(change, listener, "dns", route.TLSPlain, first)
	e.update(t, change)
	one := must.Get(net.Dial("udp", listener.Address.String()))(t)
	defer one.Close()
	other := must.Get(net.Dial("udp", listener.Address.String()))(t)
	defer other.Close()
	name, peer := exchange(t, one, "a")
	if _, again := exchange(t, one, "b"); name != "first" || again != peer {
		t.Errorf("%s at %s, and then at %s", name, peer, again)
	}
	if _, another := exchange(t, other, "c"); another == peer {
		t.Error("two clients are one peer of the backend")
	}

	// The endpoint leaves, and a flow goes on at the next one.
	change = &route.Change{}
	change.Backends.Changed = []*route.Backend{{ID: udp.Backends[0].Backend, Endpoints: []route.Endpoint{{Address: second}}}}
	e.update(t, change)
	if name, _ := exchange(t, one, "d"); name != "second" {
		t.Errorf("after the change %s responds", name)
	}

	// The route changes, and with it the backend of the flow, whose endpoint stays.
	change = &route.Change{}
	next := stream(change, listener, "dns", route.TLSPlain)
	next.Backends = []route.BackendRef{{Status: 500, Weight: 1}}
	change.Backends.Added = nil
	e.update(t, change)
	must.Get(io.WriteString(one, "e"))(t)
	change = &route.Change{}
	change.TCPRoutes.Added = []*route.TCPRoute{udp}
	e.update(t, change)
	if name, _ := exchange(t, one, "f"); name != "second" {
		t.Errorf("after the second change %s responds", name)
	}

	// The listener goes, and its port is free.
	change = &route.Change{}
	change.Listeners.Removed = []route.ListenerID{listener.ID}
	e.update(t, change)
	free := must.Get(net.ListenUDP("udp", net.UDPAddrFromAddrPort(listener.Address)))(t)
	free.Close()
}

// TestListenerClients: a listener that verifies clients accepts those of its authorities
// only, also of a new one, and one that requests certificates accepts all clients.
func TestListenerClients(t *testing.T) {
	e := startListeners(t)
	listener := listenerAt(t, "secure")
	id := route.AuthorityID{Namespace: "infra", Name: "ConfigMap_clients"}
	listener.TLS, listener.ClientAuth, listener.ClientAuthorities = true, route.ClientAuthVerify, []route.AuthorityID{id}
	trusted, other := pkitest.NewAuthority(t), pkitest.NewAuthority(t)
	own, foreign := trusted.Issue(t, "client").TLS(t), other.Issue(t, "client").TLS(t)
	request := func(certificates ...tls.Certificate) error {
		conn, err := tls.Dial("tcp", listener.Address.String(), &tls.Config{ServerName: "a.example", InsecureSkipVerify: true, Certificates: certificates})
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"); err != nil {
			return err
		}
		_, err = io.ReadAll(conn)
		return err
	}
	expect := func(what string, wantOwn, wantForeign, wantNone bool) {
		t.Helper()
		for _, test := range []struct {
			by   string
			want bool
			err  error
		}{{"own", wantOwn, request(own)}, {"foreign", wantForeign, request(foreign)}, {"no", wantNone, request()}} {
			if (test.err == nil) != test.want {
				t.Errorf("%s: with the %s certificate: %v", what, test.by, test.err)
			}
		}
	}
	change := added(ruleAt(listener, 200))
	change.Listeners.Added = []*route.Listener{listener}
	change.Authorities.Added = []*route.Authority{{ID: id, Bundle: trusted.PEM}}
	e.update(t, change)
	expect("verify", true, false, false)

	change = &route.Change{}
	change.Authorities.Changed = []*route.Authority{{ID: id, Bundle: other.PEM}}
	e.update(t, change)
	expect("another authority", false, true, false)

	requests := *listener
	requests.ClientAuth, requests.ClientAuthorities = route.ClientAuthRequest, nil
	change = &route.Change{}
	change.Listeners.Changed = []*route.Listener{&requests}
	e.update(t, change)
	expect("request", true, true, true)
}
