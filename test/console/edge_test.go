package console

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

const (
	// loadClients send requests at a time, and pause for loadPause after each response.
	loadClients = 4
	loadPause   = 10 * time.Millisecond
	loadTimeout = 10 * time.Second
)

// edgeNamespace is where what belongs to the edge alone is.
const edgeNamespace = "front"

// edgeHost is the edge that the runtime of the first cluster brings, behind the load
// balancer.
type edgeHost struct{ url string }

// misspelled is an Ingress that asks for something that there is not.
const misspelled = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: misspelled, annotations: {slipway.dev/rate-limmit: "10"}}
spec:
  ingressClassName: slipway
  rules:
    - host: misspelled.example.com
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: nothing, port: {number: 80}}}}]}
`

// certificate gives the edge of a cluster a certificate for localhost. The
// namespace then owns the host, and grants it to the runtime behind an Ingress.
func (w *world) certificate(t *testing.T, at *site) {
	t.Helper()
	encode := base64.StdEncoding.EncodeToString
	must.Do(t, at.makeNamespace(t.Context(), edgeNamespace))
	at.cluster.Apply(t, edgeNamespace, fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: localhost}
type: kubernetes.io/tls
data: {tls.crt: %s, tls.key: %s}
---
apiVersion: v1
kind: Service
metadata: {name: nothing}
spec: {ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: localhost, annotations: {slipway.dev/host-grants: shop}}
spec:
  ingressClassName: slipway
  tls: [{hosts: [localhost], secretName: localhost}]
  rules:
    - host: localhost
      http: {paths: [{path: /certificate-of-this-host, pathType: Exact, backend: {service: {name: nothing, port: {number: 80}}}}]}
`, encode(w.authority.Cert), encode(w.authority.Key)))
}

// load is requests to a host of the edge, one after another.
type load struct {
	host             string
	cancel           context.CancelFunc
	running          sync.WaitGroup
	answered, failed atomic.Int64
}

// startLoad sends requests to the host that is asked for, or to that of the application
// web.
func (w *world) startLoad(t *testing.T, body []byte) (any, error) {
	asked, err := read[struct{ Host string }](body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	started := &load{cancel: cancel, host: cmp.Or(asked.Host, webHost)}
	w.loadMu.Lock()
	defer w.loadMu.Unlock()
	if w.load != nil {
		cancel()
		return nil, fmt.Errorf("there is load already")
	}
	w.load = started
	w.t.Cleanup(func() { cancel(); started.running.Wait() })
	programs.Eventually(t, func(ctx context.Context) error { return w.edge.ask(ctx, started.host) })
	for range loadClients {
		started.running.Go(func() { started.ask(ctx, w.edge) })
	}
	return struct{}{}, nil
}

func (l *load) ask(ctx context.Context, edge *edgeHost) {
	pause := time.NewTicker(loadPause)
	defer pause.Stop()
	for {
		err := edge.ask(ctx, l.host)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			l.failed.Add(1)
		default:
			l.answered.Add(1)
		}
		<-pause.C
	}
}

// ask is one request for the application of a host.
func (e *edgeHost) ask(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+"/", nil)
	if err != nil {
		return err
	}
	request.Host = host
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the edge answers %s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	return err
}

func (w *world) stopLoad(*testing.T, []byte) (any, error) {
	w.loadMu.Lock()
	defer w.loadMu.Unlock()
	if w.load == nil {
		return nil, fmt.Errorf("there is no load")
	}
	w.load.cancel()
	w.load.running.Wait()
	seen := map[string]int64{"answered": w.load.answered.Load(), "failed": w.load.failed.Load()}
	w.load = nil
	return seen, nil
}

// value is the value of an application's ConfigMap in the cluster.
func (w *world) value(t *testing.T, body []byte) (any, error) {
	asked, err := read[struct{ Folder string }](body)
	if err != nil {
		return nil, err
	}
	found, err := w.cluster.Client.CoreV1().ConfigMaps(w.target).Get(t.Context(), asked.Folder+"-settings", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return map[string]string{"value": found.Data["value"]}, nil
}
