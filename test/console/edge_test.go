package console

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/test/programs"
)

const (
	// loadClients ask the edge at a time, and pause so long after each answer.
	loadClients = 4
	loadPause   = 10 * time.Millisecond
	loadTimeout = 10 * time.Second
)

// trafficAddress is where agents ask the edge what it serves.
const trafficAddress = "127.0.0.1:8093"

// edgeHost is the edge of the cluster, where the ports of the Internet are.
type edgeHost struct {
	url string
	// secret is the file with what it shares with agents.
	secret string
}

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

// startEdge serves the Ingresses of the cluster at loopback.
func (w *world) startEdge(t *testing.T) *edgeHost {
	t.Helper()
	const namespace = "edge"
	if err := w.makeNamespace(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	w.cluster.Apply(t, namespace, "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: slipway}\nspec: {controller: slipway.dev/ingress-controller}\n")
	w.cluster.Apply(t, namespace, misspelled)
	started := &edgeHost{url: "http://127.0.0.1", secret: filepath.Join(t.TempDir(), "traffic")}
	writeFile(t, started.secret, rand.Text()+rand.Text())
	programs.Start(t, programs.Options{
		Binary: w.binary, Name: "the edge", Environment: []string{"KUBECONFIG=" + w.cluster.Kubeconfig, "POD_NAMESPACE=" + namespace},
		Words: []string{
			"edge", "--log.format=json", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0",
			"--traffic.address=" + trafficAddress, "--traffic.secretFile=" + started.secret,
			"--providers.kubernetesIngress", "--providers.kubernetesIngress.ingressClass=slipway", "--providers.kubernetesIngress.ingressEndpoint.ip=127.0.0.1",
			"--entryPoints.web.address=127.0.0.1:80", "--entryPoints.websecure.address=127.0.0.1:443", "--entryPoints.websecure.http.tls=true",
		},
	})
	return started
}

// certificate gives the edge a certificate for localhost, for the Ingresses of a
// namespace.
func (w *world) certificate(t *testing.T, namespace string) {
	t.Helper()
	encode := base64.StdEncoding.EncodeToString
	w.cluster.Apply(t, namespace, fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: localhost}
type: kubernetes.io/tls
data: {tls.crt: %s, tls.key: %s}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: localhost}
spec:
  ingressClassName: slipway
  tls: [{hosts: [localhost], secretName: localhost}]
  rules:
    - host: localhost
      http: {paths: [{path: /certificate-of-this-host, pathType: Exact, backend: {service: {name: internal-router, port: {number: 80}}}}]}
`, encode(w.authority.Cert), encode(w.authority.Key)))
}

// load is requests to the edge, one after another.
type load struct {
	cancel           context.CancelFunc
	running          sync.WaitGroup
	answered, failed atomic.Int64
}

func (w *world) startLoad(t *testing.T, _ []byte) (any, error) {
	ctx, cancel := context.WithCancel(w.t.Context())
	started := &load{cancel: cancel}
	w.loadMu.Lock()
	defer w.loadMu.Unlock()
	if w.load != nil {
		cancel()
		return nil, fmt.Errorf("there is load already")
	}
	w.load = started
	w.t.Cleanup(func() { cancel(); started.running.Wait() })
	programs.Eventually(t, func(ctx context.Context) error { return w.edge.ask(ctx) })
	for range loadClients {
		started.running.Go(func() { started.ask(ctx, w.edge) })
	}
	return struct{}{}, nil
}

func (l *load) ask(ctx context.Context, edge *edgeHost) {
	pause := time.NewTicker(loadPause)
	defer pause.Stop()
	for {
		err := edge.ask(ctx)
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

// ask is one request for the application.
func (e *edgeHost) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+"/", nil)
	if err != nil {
		return err
	}
	request.Host = webHost
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

// value is what a ConfigMap of an application says in the cluster.
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
