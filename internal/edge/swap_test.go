package edge_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// load asks the edge until ctx ends. Each request carries a nonce, and the
// response must repeat it together with the tenant that the host belongs to.
type load struct {
	sent, failed atomic.Int64
	first        atomic.Pointer[string]
	running      sync.WaitGroup
}

func (l *load) run(ctx context.Context, address string, tenants, workers int) {
	for worker := range workers {
		l.running.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for n := 0; ctx.Err() == nil; n++ {
				l.ask(client, address, fmt.Sprintf("tenant-%d", n%tenants), fmt.Sprintf("%d.%d", worker, n))
			}
		})
	}
}

func (l *load) ask(client *http.Client, address, tenant, nonce string) {
	l.sent.Add(1)
	request, err := http.NewRequest("GET", "http://"+address+"/"+nonce, nil)
	if err != nil {
		l.fail(err.Error())
		return
	}
	request.Host = tenant + ".example"
	response, err := client.Do(request)
	if err != nil {
		l.fail(err.Error())
		return
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if want := tenant + " /" + nonce; err != nil || response.StatusCode != 200 || string(body) != want {
		l.fail(fmt.Sprintf("%d %q %v, want %q", response.StatusCode, body, err, want))
	}
}

func (l *load) fail(what string) {
	l.failed.Add(1)
	l.first.CompareAndSwap(nil, &what)
}

func (l *load) check(t *testing.T) {
	t.Helper()
	l.running.Wait()
	if failed := l.failed.Load(); failed > 0 {
		t.Errorf("%d of %d requests failed or were misrouted; the first: %s", failed, l.sent.Load(), *l.first.Load())
	}
	t.Logf("%d requests", l.sent.Load())
}

// tenantTable has a host, a backend and a varying number of endpoints for each
// tenant, and a varying number of rules beside them.
func tenantTable(endpoints [][]netip.AddrPort, extra int) *route.Table {
	table := &route.Table{}
	prefix := route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: "/"}}
	for i, addresses := range endpoints {
		id := route.BackendID{Namespace: fmt.Sprintf("ns-%d", i), Name: "app", Port: 80}
		b := &route.Backend{ID: id}
		for _, address := range addresses {
			b.Endpoints = append(b.Endpoints, route.Endpoint{Address: address})
		}
		table.Backends = append(table.Backends, b)
		table.Rules = append(table.Rules, &route.Rule{
			ID: route.ID{Namespace: id.Namespace, Name: "app"}, Host: fmt.Sprintf("tenant-%d.example", i),
			Match: prefix, Backends: []route.BackendRef{{Backend: id}},
		})
	}
	for i := range extra {
		table.Rules = append(table.Rules, &route.Rule{
			ID: route.ID{Namespace: "extra", Name: fmt.Sprintf("r-%d", i)}, Host: fmt.Sprintf("extra-%d.example", i),
			Match: prefix, Response: &route.Response{Status: 404, Reason: route.ReasonConfigured},
		})
	}
	return table
}

// TestSwapUnderLoad changes rules and endpoints again and again while requests
// and a tunnel go on. No request fails or reaches another tenant's endpoint.
func TestSwapUnderLoad(t *testing.T) {
	const tenants, each = 3, 3
	tables, endpointChanges := 200, 2000
	if testing.Short() {
		tables, endpointChanges = 20, 200
	}
	all := make([][]netip.AddrPort, tenants)
	for tenant := range tenants {
		for range each {
			all[tenant] = append(all[tenant], edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Upgrade") != "" {
					hijackEcho(t, w)
					return
				}
				fmt.Fprintf(w, "tenant-%d %s", tenant, r.URL.Path)
			}))
		}
	}
	s := start(t, tenantTable(all, 0))
	tunnel := edgetest.Dial(t, s.address)
	tunnel.Send("GET / HTTP/1.1\r\nHost: tenant-0.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
	if response, err := http.ReadResponse(tunnel.Reader, nil); err != nil || response.StatusCode != 101 {
		t.Fatalf("got %v and %v", response, err)
	}

	ctx, stop := context.WithCancel(context.Background())
	var l load
	l.run(ctx, s.address, tenants, 4)
	for i := range endpointChanges {
		// One endpoint of each tenant is left out, each time another.
		some := make([][]netip.AddrPort, tenants)
		for tenant := range tenants {
			for j := range each {
				if j != (i+tenant)%each {
					some[tenant] = append(some[tenant], all[tenant][j])
				}
			}
		}
		must.Do(t, s.Apply(tenantTable(some, i*tables/endpointChanges%7)))
	}
	stop()
	l.check(t)
	tunnel.Send("still here")
	got := make([]byte, len("still here"))
	if _, err := io.ReadFull(tunnel.Reader, got); err != nil || string(got) != "still here" {
		t.Errorf("the tunnel gave %q and %v", got, err)
	}
	tunnel.Close()
}

// hijackEcho accepts an upgrade and repeats what it is sent.
func hijackEcho(t *testing.T, w http.ResponseWriter) {
	conn, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	_, _ = io.Copy(conn, buffered)
}

// TestDrainLosesNothing stops the edge while requests run: each one that was
// accepted gets its response, and the connections end by themselves.
func TestDrainLosesNothing(t *testing.T) {
	const inFlight = 20
	arrived, finish := make(chan struct{}, inFlight), make(chan struct{})
	s := start(t, tableFor(edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-finish
		fmt.Fprint(w, strings.TrimPrefix(r.URL.Path, "/"))
	})))
	idle := edgetest.Dial(t, s.address)
	idle.Send("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
	idle.Response("OPTIONS")
	silent := edgetest.Dial(t, s.address)
	clients := make([]*edgetest.Wire, inFlight)
	for i := range clients {
		clients[i] = edgetest.Dial(t, s.address)
		clients[i].Send(fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", i))
		<-arrived
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.stop()
	}()
	idle.RequireClosed() // the drain has begun
	close(finish)
	for i, w := range clients {
		response, body := w.Response("GET")
		if response.StatusCode != 200 || body != fmt.Sprint(i) || !response.Close {
			t.Errorf("got %d %q, close %v", response.StatusCode, body, response.Close)
		}
		w.RequireClosed()
	}
	silent.RequireClosed()
	<-stopped
}

// TestDrainStreams stops the edge while requests of HTTP/2 run: they are
// served, and the client gets GOAWAY.
func TestDrainStreams(t *testing.T) {
	arrived, finish := make(chan struct{}, 1), make(chan struct{})
	s := start(t, tableFor(edgetest.Backend(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-finish
	})))
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	ended := make(chan error, 1)
	go func() {
		response, err := client.Get("http://" + s.address)
		if err == nil {
			err = response.Body.Close()
		}
		ended <- err
	}()
	<-arrived
	silent := edgetest.Dial(t, s.address)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.stop()
	}()
	silent.RequireClosed() // the drain has begun
	close(finish)
	if err := <-ended; err != nil {
		t.Errorf("a request that ran was cut off: %v", err)
	}
	<-stopped
}

// TestOverload: without memory requests are refused, with the time for
// a retry.
func TestOverload(t *testing.T) {
	options := edge.Options{MemoryLimit: 1}
	s := startWith(t, tableFor(edgetest.Backend(t, edgetest.Echo)), options, edge.DefaultEntryPoint("web", "127.0.0.1:0"))
	for refused := false; !refused; {
		w := edgetest.Dial(t, s.address)
		w.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		response, _ := w.Response("GET")
		refused = response.StatusCode == 503 && response.Header.Get("Retry-After") == "1" && response.Close
		w.Close()
	}
}
