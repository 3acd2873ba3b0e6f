package up

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// clients is how many ask the demo at a time while it rolls.
const clients = 4

// deadEdge kills the edge: everything ends, with its last words.
func deadEdge(t *testing.T, dir, _ string) {
	s, facts := startJSON(t, "--dir", dir)
	edge := row(t, facts, "edge")
	must.Do(t, syscall.Kill(edge.PID, syscall.SIGKILL))
	s.requireExit(t, 1)
	for _, text := range []string{"edge ended by itself (signal: killed)", "the end of " + edge.Log, "entry point takes traffic"} {
		if !strings.Contains(s.Log.String(), text) {
			t.Errorf("%q is missing in:\n%s", text, s.Log)
		}
	}
	requireNothingRuns(t)
}

// requireStatus waits until the edge has written where the demo is reached.
func requireStatus(t *testing.T, cluster *kube.Cluster) {
	t.Helper()
	ingresses := cluster.Client.NetworkingV1().Ingresses("demo")
	kubetest.WaitFor(t, ingresses, kube.Named("demo"), time.Minute, func(found []*networkingv1.Ingress) error {
		if len(found) != 1 {
			return errors.New("there is no Ingress")
		}
		published := found[0].Status.LoadBalancer.Ingress
		if len(published) != 1 || published[0].IP != "127.0.0.1" {
			return fmt.Errorf("the status says %+v", published)
		}
		return nil
	})
}

// traffic sends requests to the demo again and again, and counts the responses by version, and
// failures by their message.
type traffic struct {
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	counts  map[string]int
	last    string
	changed chan struct{}
}

func startTraffic(t *testing.T, urls ...string) *traffic {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	load := &traffic{cancel: cancel, counts: map[string]int{}, changed: make(chan struct{})}
	t.Cleanup(func() { load.stop() })
	for client := range clients {
		url := urls[client%len(urls)]
		load.running.Go(func() { load.ask(ctx, url) })
	}
	return load
}

// ask is one client, with connections of its own that it keeps.
func (r *traffic) ask(ctx context.Context, url string) {
	// The certificate is one that the edge made for itself.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "demo.localhost"}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	for ctx.Err() == nil {
		version, err := askVersion(ctx, client, url)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			version = err.Error()
		}
		r.mu.Lock()
		r.counts[version]++
		r.last = version
		close(r.changed)
		r.changed = make(chan struct{})
		r.mu.Unlock()
	}
}

func askVersion(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	request.Host = "demo.localhost"
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var answer struct{ Version string }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d, %w", response.StatusCode, err)
	}
	return answer.Version, nil
}

// await returns when the version has responded.
func (r *traffic) await(t *testing.T, version string) {
	t.Helper()
	deadline := time.After(stopDeadline)
	for {
		r.mu.Lock()
		last, changed := r.last, r.changed
		r.mu.Unlock()
		if last == version {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("no answer of version %s: the last was %s", version, last)
		}
	}
}

// stop ends the clients and returns what they counted.
func (r *traffic) stop() map[string]int {
	r.cancel()
	r.running.Wait()
	return r.counts
}
