package edge_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"testing"

	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// listenerAt returns a listener on a free port of loopback. Another process could
// take the port meanwhile; the kernel gives it out again last.
func listenerAt(t *testing.T, name string) *route.Listener {
	t.Helper()
	free := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := netip.MustParseAddrPort(free.Addr().String())
	must.Do(t, free.Close())
	return &route.Listener{ID: route.ListenerID{Namespace: "infra", Name: name, Port: 80}, Address: address}
}

// ruleAt returns a rule of a listener that responds with a status.
func ruleAt(listener *route.Listener, status int) *route.Rule {
	rule := siteRule(listener.ID.Name, "", status)
	rule.ID.Kind, rule.Listener = "HTTPRoute", listener.ID
	return rule
}

// startListeners starts an edge that can have listeners.
func startListeners(t testing.TB) *running {
	t.Helper()
	listener := edge.DefaultEntryPoint("gateway", "")
	listener.AcceptGrace = 0
	return startWith(t, &route.Table{}, edge.Options{Listener: listener}, edge.DefaultEntryPoint("web", "127.0.0.1:0"))
}

// at returns the edge as seen at a listener.
func (e *running) at(listener *route.Listener) *running {
	return &running{Server: e.Server, address: listener.Address.String()}
}

// refuses reports whether no connection can be made to an address.
func refuses(address netip.AddrPort) bool {
	conn, err := net.Dial("tcp", address.String())
	if err == nil {
		conn.Close()
	}
	return err != nil
}

// Listeners come and go with the table. Each has its own rules, an open connection
// survives the end of another listener, and a closed one is free at once.
func TestListeners(t *testing.T) {
	e := startListeners(t)
	first, second := listenerAt(t, "first"), listenerAt(t, "second")
	change := added(ruleAt(first, 201), ruleAt(second, 202), siteRule("ingress", "", 203))
	change.Listeners.Added = []*route.Listener{first, second}
	if feedback := e.Update(change); len(feedback.Problems) > 0 {
		t.Fatal(feedback.Problems)
	}
	for at, want := range map[*running]int{e: 203, e.at(first): 201, e.at(second): 202} {
		if got := statusOf(t, at, "a.example"); got != want {
			t.Errorf("%s responds with %d, want %d", at.address, got, want)
		}
	}
	kept := edgetest.Dial(t, first.Address.String())
	defer kept.Close()
	request := func(want int) {
		t.Helper()
		kept.Send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
		if response, _ := kept.Response("GET"); response.StatusCode != want {
			t.Errorf("the old connection responds with %d, want %d", response.StatusCode, want)
		}
	}
	request(201)

	// The second moves to the address that the third has, which goes.
	moved := *second
	moved.Address = listenerAt(t, "moved").Address
	change = &route.Change{}
	change.Listeners.Changed = []*route.Listener{&moved}
	if feedback := e.Update(change); len(feedback.Problems) > 0 {
		t.Fatal(feedback.Problems)
	}
	if got := statusOf(t, e.at(&moved), "a.example"); got != 202 || !refuses(second.Address) {
		t.Errorf("the listener that moved responds with %d", got)
	}
	third := *first
	third.ID.Name, third.Address = "third", moved.Address
	change = added(ruleAt(&third, 204))
	change.Listeners.Removed = []route.ListenerID{second.ID}
	change.Listeners.Added = []*route.Listener{&third}
	if feedback := e.Update(change); len(feedback.Problems) > 0 {
		t.Fatal(feedback.Problems)
	}
	if got := statusOf(t, e.at(&third), "a.example"); got != 204 {
		t.Errorf("the address of the listener that went responds with %d", got)
	}
	request(201)

	// The third becomes encrypted at its address.
	secure := third
	secure.TLS = true
	change = &route.Change{}
	change.Listeners.Changed = []*route.Listener{&secure}
	if feedback := e.Update(change); len(feedback.Problems) > 0 {
		t.Fatal(feedback.Problems)
	}
	if got := statusOf(t, e.at(&secure), "a.example"); got != 400 {
		t.Errorf("the encrypted listener responds to plain HTTP with %d", got)
	}

	// A taken address is a problem of its listener alone.
	taken := *first
	taken.ID.Name = "taken"
	change = &route.Change{}
	change.Listeners.Added = []*route.Listener{&taken}
	feedback := e.Update(change)
	if len(feedback.Problems) != 1 || feedback.Problems[0].Subject != route.Identity(taken.ID) {
		t.Errorf("problems %v", feedback.Problems)
	}
	request(201)
	e.stop()
	if !refuses(first.Address) || !refuses(third.Address) {
		t.Error("a listener is open after the end")
	}
}

// A listener with TLS shows its own certificates, and a new one from the next
// handshake on.
func TestListenerCertificates(t *testing.T) {
	e := startListeners(t)
	listener := listenerAt(t, "secure")
	id := route.CertificateID{Namespace: "infra", Name: "shop"}
	listener.TLS, listener.Certificates = true, []route.ListenerCertificate{{Certificate: id, Host: "shop.example"}}
	certificate := func(pair pkitest.Pair) *route.Certificate {
		return &route.Certificate{ID: id, Chain: pair.Chain, Key: route.NewSecret(pair.Key)}
	}
	authority := pkitest.NewAuthority(t)
	shown := func(name string) string {
		t.Helper()
		conn := must.Get(tls.Dial("tcp", listener.Address.String(), &tls.Config{ServerName: name, InsecureSkipVerify: true}))(t)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	var before string
	for i := range 2 {
		pair := authority.Issue(t, "shop.example")
		change := &route.Change{}
		if i == 0 {
			change = added(ruleAt(listener, 200))
			change.Listeners.Added = []*route.Listener{listener}
		}
		change.Certificates.Added = []*route.Certificate{certificate(pair)}
		if feedback := e.Update(change); len(feedback.Problems)+len(feedback.TLS) > 0 {
			t.Fatal(feedback.Problems, feedback.TLS)
		}
		want := must.Get(pair.Leaf())(t).SerialNumber.String()
		if got := shown("shop.example"); got != want || got == before {
			t.Errorf("the certificate %s is shown, want %s", got, want)
		}
		if got := shown("other.example"); got != want {
			t.Errorf("the certificate %s is shown for a name without one, want %s", got, want)
		}
		before = want
	}
}

// Host names that share an encrypted listener are kept apart: a request on the
// connection of another one gets 421, also on a connection that was there before.
func TestListenerHosts(t *testing.T) {
	e := startListeners(t)
	listener := listenerAt(t, "secure")
	listener.TLS, listener.Hosts = true, []string{"", "shop.example"}
	change := added(ruleAt(listener, 200))
	change.Listeners.Added = []*route.Listener{listener}
	if feedback := e.Update(change); len(feedback.Problems) > 0 {
		t.Fatal(feedback.Problems)
	}
	dial := func(name string) func(host string) int {
		conn := must.Get(tls.Dial("tcp", listener.Address.String(), &tls.Config{ServerName: name, InsecureSkipVerify: true}))(t)
		t.Cleanup(func() { conn.Close() })
		reader := bufio.NewReader(conn)
		return func(host string) int {
			t.Helper()
			must.Get(conn.Write([]byte("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")))(t)
			response := must.Get(http.ReadResponse(reader, nil))(t)
			must.Get(io.Copy(io.Discard, response.Body))(t)
			return response.StatusCode
		}
	}
	shop, other := dial("shop.example"), dial("other.example")
	for _, test := range []struct {
		at   func(string) int
		host string
		want int
	}{{shop, "shop.example", 200}, {shop, "other.example", 421}, {other, "new.example", 200}, {other, "shop.example", 421}} {
		if got := test.at(test.host); got != test.want {
			t.Errorf("%s gets %d, want %d", test.host, got, test.want)
		}
	}
	more := *listener
	more.Hosts = []string{"", "shop.example", "new.example"}
	change = &route.Change{}
	change.Listeners.Changed = []*route.Listener{&more}
	if feedback := e.Update(change); len(feedback.Problems) > 0 {
		t.Fatal(feedback.Problems)
	}
	if got := other("new.example"); got != 421 {
		t.Errorf("a host that was added gets %d on an older connection of another one", got)
	}
}

// BenchmarkListener: a listener with a rule comes and goes beside many others. The cost must
// not follow their number.
func BenchmarkListener(b *testing.B) {
	for _, others := range []int{10, 100, 1000} {
		b.Run(strconv.Itoa(others), func(b *testing.B) {
			e := startListeners(b)
			at := func(i int, port uint16) *route.Listener {
				return &route.Listener{
					ID:      route.ListenerID{Namespace: "infra", Name: strconv.Itoa(i), Port: port},
					Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 2, byte(i >> 8), byte(i)}), port+8000),
				}
			}
			all := &route.Change{}
			for i := range others {
				one := at(i+1, 80)
				all.Listeners.Added, all.Rules.Added = append(all.Listeners.Added, one), append(all.Rules.Added, ruleAt(one, 200))
			}
			if feedback := e.Update(all); len(feedback.Problems) > 0 {
				b.Fatal(feedback.Problems)
			}
			more := at(1, 81)
			rule := ruleAt(more, 201)
			rule.ID.Variant = "1"
			come, leave := added(rule), &route.Change{}
			come.Listeners.Added = []*route.Listener{more}
			leave.Listeners.Removed, leave.Rules.Removed = []route.ListenerID{more.ID}, []route.ID{rule.ID}
			b.ReportAllocs()
			for b.Loop() {
				if feedback := e.Update(come); len(feedback.Problems) > 0 {
					b.Fatal(feedback.Problems)
				}
				e.Update(leave)
			}
		})
	}
}

// TestOwnListener: an endpoint that is a listener of the edge gets no request while the
// listener is open, and does when another process has its address.
func TestOwnListener(t *testing.T) {
	e := startListeners(t)
	first, second := listenerAt(t, "first"), listenerAt(t, "second")
	change := added(ruleAt(first, 201), ruleAt(second, 202))
	change.Listeners.Added = []*route.Listener{first, second}
	if feedback := e.Update(change); len(feedback.Problems) > 0 {
		t.Fatal(feedback.Problems)
	}
	expect := func(endpoint netip.AddrPort, want int) {
		t.Helper()
		must.Do(t, e.Apply(tableFor(endpoint)))
		if got := statusOf(t, e, "a.example"); got != want {
			t.Errorf("endpoint %s: status %d, want %d", endpoint, got, want)
		}
	}
	expect(second.Address, http.StatusBadGateway)
	expect(first.Address, http.StatusBadGateway)
	leave := &route.Change{}
	leave.Listeners.Removed = []route.ListenerID{first.ID}
	e.Update(leave)
	expect(second.Address, http.StatusBadGateway)
	other := &http.Server{Handler: http.HandlerFunc(edgetest.Echo)}
	taken := must.Get(net.Listen("tcp", first.Address.String()))(t)
	go func() { _ = other.Serve(taken) }()
	t.Cleanup(func() { other.Close() })
	expect(first.Address, http.StatusOK)
}
