package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/bench/ground"
)

const (
	// gatewayPort is the port of all Gateways, and addedPort the one that is added.
	gatewayPort = 80
	addedPort   = 81
	// gatewayHost is a host that belongs to no other route.
	gatewayHost = "gateways.test"
	// bystanders is the number of goroutines that send requests to the Gateways that
	// stay as they are, and bystanderPause is the time between two requests of one.
	bystanders     = 4
	bystanderPause = 5 * time.Millisecond
	// listenerSamples bounds the listeners that are added and removed: each takes two
	// requests to the API server and a pause.
	listenerSamples = 200
)

// gatewayAddress returns the address of a further Gateway.
func gatewayAddress(i int) netip.Addr {
	i++ // not the address of the network
	return netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)})
}

// addressOf returns a port of a further Gateway.
func addressOf(i int, port uint16) string {
	return netip.AddrPortFrom(gatewayAddress(i), port).String()
}

// gatewayName returns the name of a further Gateway and of its route.
func gatewayName(i int) string { return fmt.Sprintf("gateway-%05d", i) }

// measureEmpty returns the memory of an edge in a cluster without routes.
func measureEmpty(ctx context.Context, s *settings, c *ground.Cluster, dir string) (megabytes float64, err error) {
	e, err := startEdge(s, c, dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.End(nil)) }()
	ready, cancel := context.WithTimeout(ctx, coldTimeout)
	defer cancel()
	if err := e.Await(ready, 5*time.Millisecond, e.ready); err != nil {
		return 0, err
	}
	if err := ground.Wait(ctx, s.settle); err != nil {
		return 0, err
	}
	m, err := programs.ReadMemory(e.PID())
	return ground.Megabytes(m.Resident), err
}

// gateways returns the client of Gateways.
func (w *world) gateways(namespace string) dynamic.ResourceInterface {
	return w.Dynamic.Resource(gatewayVersion.WithResource("gateways")).Namespace(namespace)
}

// changeListeners creates many Gateways, adds a listener to one after the other and
// removes it, and sends requests to the others all the time.
func (b *bench) changeListeners(ctx context.Context) (err error) {
	count := b.settings.gateways
	if err := b.world.eachGateway(ctx, count, b.world.createGateway); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.world.eachGateway(ctx, count, b.world.deleteGateway)) }()
	for i := range count {
		if _, err := b.untilOpen(ctx, addressOf(i, gatewayPort)); err != nil {
			return err
		}
	}
	// As in rest: the writes of their statuses are work, and load the API server.
	if err := b.edge.Await(ctx, time.Second, b.world.gatewaysPublished); err != nil {
		return err
	}
	m, err := programs.ReadMemory(b.edge.PID())
	if err != nil {
		return err
	}
	b.figures.Listeners = &listenerFigures{Gateways: count, Resident: ground.Megabytes(m.Resident)}
	finish := b.profiles().CPU(ctx, phaseListeners, time.Duration(2*min(b.settings.samples, listenerSamples))*b.settings.pace())
	group, loaded := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(loaded)
	var requests atomic.Int64
	for n := range bystanders {
		group.Go(func() error { return bystand(running, n, count, &requests) })
	}
	group.Go(func() error {
		defer stop()
		return b.sampleListeners(loaded, count)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	f := b.figures.Listeners
	f.Requests = requests.Load()
	b.report("listeners: %d Gateways, RSS %.0f MB; %d requests to others, none failed", count, f.Resident, f.Requests)
	b.report("listener added: open %s; removed: closed %s", f.Added.text(), f.Removed.text())
	return finish()
}

// sampleListeners measures changes of listeners, one at a time.
func (b *bench) sampleListeners(ctx context.Context, gateways int) error {
	seen, err := look(ctx, b.world.gateways(""))
	if err != nil {
		return err
	}
	defer seen.close()
	before, err := b.world.apiCosts(ctx)
	if err != nil {
		return err
	}
	var added, removed []delay
	pace := time.NewTicker(b.settings.pace())
	defer pace.Stop()
	for range min(b.settings.samples, listenerSamples) {
		i := rand.IntN(gateways)
		open, err := b.delay(ctx, b.listenersChange(i, true), opens(i), seen)
		if err != nil {
			return fmt.Errorf("add a listener: %w", err)
		}
		// Not at once: the edge writes the status of the same Gateway meanwhile.
		if err := awaitTick(ctx, pace); err != nil {
			return err
		}
		closed, err := b.delay(ctx, b.listenersChange(i, false), closes(i), seen)
		if err != nil {
			return fmt.Errorf("remove a listener: %w", err)
		}
		added, removed = append(added, open), append(removed, closed)
		if err := awaitTick(ctx, pace); err != nil {
			return err
		}
	}
	b.figures.Listeners.Added, b.figures.Listeners.Removed = delayFiguresOf(added), delayFiguresOf(removed)
	return b.reportAPICosts(ctx, phaseListeners, before, len(added)+len(removed))
}

// awaitTick waits until the next change is due.
func awaitTick(ctx context.Context, pace *time.Ticker) error {
	select {
	case <-pace.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// listenersChange returns the change that adds a listener to a Gateway, or removes it.
// opens and closes return a response without an error once it is live.
func (b *bench) listenersChange(i int, both bool) change {
	return change{
		host: gatewayHost,
		make: func(ctx context.Context) (string, error) { return b.world.setListeners(ctx, i, both) },
		live: func(response) bool { return true },
	}
}

// opens returns the requests that succeed once the listener that is added to a Gateway
// serves one. Each has a new connection.
func opens(i int) func(context.Context, string) (response, error) {
	return func(ctx context.Context, host string) (response, error) {
		c := newClient(addressOf(i, addedPort))
		defer c.close()
		got, err := c.do(ctx, host)
		if err == nil && got.status != 200 {
			err = fmt.Errorf("the new listener responds with %d", got.status)
		}
		return got, err
	}
}

// closes returns the requests that succeed once the address of the listener refuses
// connections.
func closes(i int) func(context.Context, string) (response, error) {
	return func(ctx context.Context, _ string) (response, error) {
		address := addressOf(i, addedPort)
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return response{}, nil
		}
		if err == nil {
			err = errors.Join(fmt.Errorf("%s takes connections", address), conn.Close())
		}
		return response{}, err
	}
}

// untilOpen waits until an address serves a request, on a new connection each time.
func (b *bench) untilOpen(ctx context.Context, address string) (time.Time, error) {
	c := newClient(address)
	defer c.close()
	return b.until(ctx, gatewayHost, func(ctx context.Context, host string) (response, error) {
		c.close()
		return c.do(ctx, host)
	}, func(got response) bool { return got.status == 200 })
}

// bystand sends requests to a share of the Gateways on connections that it keeps, until
// the context is done. Any failure ends the measurement.
func bystand(ctx context.Context, share, gateways int, requests *atomic.Int64) error {
	var clients []*client
	for i := share; i < gateways; i += bystanders {
		c := newClient(addressOf(i, gatewayPort))
		defer c.close()
		clients = append(clients, c)
	}
	for n := 0; len(clients) > 0; n++ {
		if ground.Wait(ctx, bystanderPause) != nil {
			return nil // the samples are complete
		}
		c := clients[n%len(clients)]
		switch got, err := c.do(ctx, gatewayHost); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("another Gateway: %w", err)
		case got.status != 200:
			return fmt.Errorf("another Gateway responds with %d", got.status)
		}
		requests.Add(1)
	}
	return nil
}

// eachGateway calls do for each further Gateway, with as many at a time as the API
// server can take.
func (w *world) eachGateway(ctx context.Context, count int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range count {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// createGateway creates a further Gateway and its route, to the Service of an
// application.
func (w *world) createGateway(ctx context.Context, i int) error {
	app := i % w.apps
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"gatewayClassName": "slipway", "addresses": []any{map[string]any{"value": gatewayAddress(i).String()}},
		"listeners": listenersOf(false),
	}}}
	object.SetGroupVersionKind(gatewayVersion.WithKind("Gateway"))
	object.SetName(gatewayName(i))
	if _, err := w.gateways(namespaceOf(app)).Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return err
	}
	route := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"parentRefs": []any{map[string]any{"name": gatewayName(i)}},
		"rules":      []any{map[string]any{"backendRefs": []any{map[string]any{"name": appName(app), "port": int64(80)}}}},
	}}}
	route.SetGroupVersionKind(gatewayVersion.WithKind("HTTPRoute"))
	route.SetName(gatewayName(i))
	_, err := w.httpRoutes(namespaceOf(app)).Create(ctx, route, metav1.CreateOptions{})
	return err
}

// deleteGateway deletes the objects of createGateway.
func (w *world) deleteGateway(ctx context.Context, i int) error {
	namespace := namespaceOf(i % w.apps)
	return errors.Join(w.httpRoutes(namespace).Delete(ctx, gatewayName(i), metav1.DeleteOptions{}),
		w.gateways(namespace).Delete(ctx, gatewayName(i), metav1.DeleteOptions{}))
}

// gatewaysPublished fails until every Gateway is programmed and every route has a status.
func (w *world) gatewaysPublished(ctx context.Context) error {
	list, err := w.gateways("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	for i := range list.Items {
		conditions, _, _ := unstructured.NestedSlice(list.Items[i].Object, "status", "conditions")
		programmed := slices.ContainsFunc(conditions, func(of any) bool {
			condition, _ := of.(map[string]any)
			return condition["type"] == "Programmed" && condition["status"] == "True"
		})
		if !programmed {
			return fmt.Errorf("the Gateway %s is not programmed", list.Items[i].GetName())
		}
	}
	return w.routesPublished(ctx)
}

// listenersOf returns the listeners of a further Gateway: one, or both.
func listenersOf(both bool) []any {
	listeners := []any{map[string]any{"name": "http", "port": int64(gatewayPort), "protocol": "HTTP"}}
	if both {
		listeners = append(listeners, map[string]any{"name": "added", "port": int64(addedPort), "protocol": "HTTP"})
	}
	return listeners
}

// setListeners changes the listeners of a further Gateway, and returns its version.
func (w *world) setListeners(ctx context.Context, i int, both bool) (string, error) {
	text, err := json.Marshal(map[string]any{"spec": map[string]any{"listeners": listenersOf(both)}})
	if err != nil {
		return "", err
	}
	made, err := w.gateways(namespaceOf(i%w.apps)).Patch(ctx, gatewayName(i), types.MergePatchType, text, metav1.PatchOptions{})
	if err != nil {
		return "", err
	}
	return made.GetResourceVersion(), nil
}
