package ingress

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

const (
	churnPeriod  = 200 * time.Millisecond
	editPeriod   = 400 * time.Millisecond
	rotatePeriod = 800 * time.Millisecond
)

// changes are those of one kind that are live, and how long each took.
type changes struct {
	mu   sync.Mutex
	took []time.Duration
}

func (c *changes) add(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, took)
}

func (c *changes) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.took)
}

// String returns how many there were. What happened while the API server was away
// is among them.
func (c *changes) String(what string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.took) == 0 {
		return "no " + what
	}
	slices.Sort(c.took)
	return fmt.Sprintf("%d %s, live after %v (p50), %v (p90)", len(c.took), what, round(c.took[len(c.took)/2]), round(c.took[len(c.took)*9/10]))
}

// churn changes the endpoints of one Service after the other.
func (w *world) churn(ctx context.Context) error {
	tick := time.NewTicker(churnPeriod)
	defer tick.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s := w.services[turn%len(w.services)]
		change := s.churn
		if turn%5 == 4 {
			change = s.doubt
		}
		if err := change(ctx); err != nil {
			return err
		}
	}
}

// disturb runs changes until stop is called. One that fails is an error.
func disturb(failures *collector, works ...func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	for _, work := range works {
		working.Go(func() {
			if err := work(ctx); err != nil && ctx.Err() == nil {
				failures.add("the cluster does not change any more: %v", err)
			}
		})
	}
	return func() {
		cancel()
		working.Wait()
	}
}

// editRules sends a path to the other Service, and back.
func (c *continuity) editRules(ctx context.Context) error {
	for turn := 1; pause(ctx, editPeriod); turn++ {
		to := []string{"blue", "green"}[turn%2]
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"rules": []any{map[string]any{
			"host": "edited.test", "http": map[string]any{"paths": []any{pathTo("/", to), pathTo(fmt.Sprintf("/never/%d", turn), "one")}},
		}}}})
		if err != nil {
			return err
		}
		err = c.put(ctx, change{of: c.edited, to: to, noted: &c.edits, served: c.answeredBy, write: func(ctx context.Context) error {
			_, err := c.api.Client.NetworkingV1().Ingresses(c.namespace).Patch(ctx, "edited", types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

func pathTo(path, service string) map[string]any {
	return map[string]any{"path": path, "pathType": "Prefix", "backend": map[string]any{
		"service": map[string]any{"name": service, "port": map[string]any{"number": 80}},
	}}
}

// answeredBy is which Service the edited path leads to at a replica.
func (c *continuity) answeredBy(ctx context.Context, r *replica) (string, error) {
	asking := &client{method: "GET", scheme: "http", fresh: true}
	got, err := asking.exchange(ctx, asking.transport(func(port int) dialer { return r.Dialer(port) }, nil), "edited.test", "nonce")
	return got.Service, err
}

// rotate puts one certificate after the other into the Secret.
func (c *continuity) rotate(ctx context.Context) error {
	for turn := 1; turn < len(c.pairs) && pause(ctx, rotatePeriod); turn++ {
		patch, err := json.Marshal(map[string]any{"data": c.pairs[turn].Data()})
		if err != nil {
			return err
		}
		err = c.put(ctx, change{of: c.shown, to: fmt.Sprintf("v%d", turn), noted: &c.turns, served: c.showing, write: func(ctx context.Context) error {
			_, err := c.api.Client.CoreV1().Secrets(c.namespace).Patch(ctx, "secure", types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// showing is which certificate a replica shows.
func (c *continuity) showing(ctx context.Context, r *replica) (string, error) {
	dialer := tls.Dialer{Config: &tls.Config{ServerName: "secure.test", RootCAs: c.authority.Pool}}
	conn, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", r.At, edgeprocess.TLSPort))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

// change is something new that is written.
type change struct {
	of    *fact
	to    string
	noted *changes
	write func(context.Context) error
	// served is what a replica serves.
	served func(context.Context, *replica) (string, error)
}

// put writes something new and waits until all replicas that have traffic serve
// it.
func (c *continuity) put(ctx context.Context, next change) error {
	c.calm.RLock()
	defer c.calm.RUnlock()
	began := time.Now()
	next.of.changes(next.to)
	if err := c.write(ctx, next.write); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	err := until(limited, func() error {
		for _, r := range c.balancer.current() {
			if got, err := next.served(limited, r); err != nil || got != next.to {
				return fmt.Errorf("the edge at %s serves %q and not %q (%v)", r.At, got, next.to, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	next.of.changed(next.to)
	next.noted.add(time.Since(began))
	return nil
}

func secretManifest(name string, pair pkitest.Pair) string {
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}, "type": "kubernetes.io/tls", "data": pair.Data(),
	})
	if err != nil {
		panic(err) // plain values
	}
	return "\n---\n" + string(text)
}

// filler is an Ingress that makes the table larger, so that it takes time to put
// it in place.
func filler() string {
	var text strings.Builder
	text.WriteString("\n---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: filler}\nspec:\n  rules:\n")
	for i := range 500 {
		fmt.Fprintf(&text, "  - {host: filler-%d.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: one, port: {number: 80}}}}]}}\n", i)
	}
	return text.String()
}

// continuityManifest is what is served, besides Services and certificates.
const continuityManifest = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: steady}
spec:
  rules:
  - {host: one.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: one, port: {number: 80}}}}]}}
  - {host: two.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: two, port: {number: 80}}}}]}}
  - {host: three.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: three, port: {number: 80}}}}]}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: edited}
spec:
  rules:
  - {host: edited.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: blue, port: {number: 80}}}}]}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: secure}
spec:
  tls: [{hosts: [secure.test], secretName: secure}]
  rules:
  - {host: secure.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: vault, port: {number: 80}}}}]}}
---
apiVersion: v1
kind: Secret
metadata: {name: users}
type: kubernetes.io/basic-auth
stringData: {username: guard, password: guard}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: guarded
  annotations: {slipway.dev/basic-auth: "{secret: users}"}
spec:
  rules:
  - {host: guarded.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: guarded, port: {number: 80}}}}]}}
`
