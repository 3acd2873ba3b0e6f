package progressive

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// The agent is killed with SIGKILL at each write of a release to the API server: before the
// write, or after it and before the response. The next one brings good and bad revisions to
// the same end, and no request fails.
func TestKill(t *testing.T) {
	if !isLong() {
		t.Skip("it takes half an hour: make progressive")
	}
	path := newWritePath(t)
	w := newWorldWith(t, path.kubeconfig)
	path.forward(t, w.cluster.Config)
	w.startAgent(t)
	w.deployed(t)
	clients, _ := w.load(t, http.MethodGet, 200)
	w.neverWithout(t, 1)
	first, last := programs.Setting(t, "PROGRESSIVE_WRITE", 1), programs.Setting(t, "PROGRESSIVE_LAST_WRITE", 1000)
	// Both ways are killed at each write.
	for _, isBad := range []bool{false, true} {
		for write := first; write <= last; write++ {
			if !w.killed(t, path, clients, write, isBad) || t.Failed() {
				break
			}
		}
	}
}

// killed releases a revision and kills the agent at a write. It reports whether there was
// such a write.
func (w *world) killed(t *testing.T, path *writePath, clients *load, write int, isBad bool) bool {
	t.Helper()
	before := clients.counts()
	of := revision{image: w.good(), policy: "steps: [{weight: 50, requests: 50}]"}
	if isBad {
		of.container = `env: [{name: ERRORS, value: "20"}]`
	}
	reached := path.arm(write, write%2 == 0)
	commit := w.push(t, of)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.ends(t, commit, isBad)
	}()
	what, isKilled := "", false
	select {
	case what = <-reached:
		isKilled = true
		w.agent.Kill()
		path.disarm()
		w.startAgent(t)
		<-ended
	case <-ended:
		path.disarm()
	}
	served := clients.counts().since(before)
	t.Logf("write %d of a release, bad %t: %s: %d of %d requests failed", write, isBad, what, served.failed, served.requests)
	if served.failed > 0 {
		t.Errorf("%d of %d requests failed: %s", served.failed, served.requests, clients.lastError())
	}
	return isKilled
}

// ends waits for the end of a release: Synced at the commit, or held before it.
func (w *world) ends(t *testing.T, commit string, isBad bool) {
	w.await(t, func(app *v1alpha1.Application) error {
		held := app.Status.Held != nil && len(app.Status.Held.Target) == 1 && app.Status.Held.Target[0] == commit
		switch {
		case app.Status.Sync.Status != v1alpha1.SyncSynced || app.Status.Health.Status != v1alpha1.Healthy:
			return fmt.Errorf("it is %s", describe(app))
		case isBad && !held, !isBad && app.Status.Sync.Revision != commit:
			return fmt.Errorf("it is %s with %+v", describe(app), app.Status.Held)
		}
		return nil
	})
}

// writePath is between the agent and the API server, and holds a write until the agent is
// killed.
type writePath struct {
	kubeconfig string
	server     *httptest.Server
	proxy      *httputil.ReverseProxy

	mu      sync.Mutex // guards the rest
	left    int        // writes until the one that is held; 0 for none
	after   bool
	reached chan string
	killed  chan struct{}
}

func newWritePath(t *testing.T) *writePath {
	t.Helper()
	p := &writePath{}
	p.server = httptest.NewServer(p)
	t.Cleanup(p.server.Close)
	p.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {}}]
`, p.server.URL)
	must.Do(t, os.WriteFile(p.kubeconfig, []byte(text), 0o600))
	return p
}

// forward sends requests to an API server.
func (p *writePath) forward(t *testing.T, to *rest.Config) {
	t.Helper()
	target := must.Get(url.Parse(to.Host))(t)
	p.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1,
		Transport: must.Get(rest.TransportFor(to))(t), ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
}

// arm holds a write, before or after it is carried out. The channel gets what it is.
func (p *writePath) arm(write int, after bool) <-chan string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.after, p.reached, p.killed = write, after, make(chan string, 1), make(chan struct{})
	return p.reached
}

// disarm lets all requests pass.
func (p *writePath) disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = 0
	close(p.killed)
}

// holds reports whether a request is held, and how.
func (p *writePath) holds(r *http.Request) (reached chan string, killed chan struct{}, after bool) {
	isWrite := r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/events") && !strings.Contains(r.URL.Path, "/leases") &&
		!strings.Contains(r.URL.Path, "authorization.k8s.io") && r.URL.Query().Get("dryRun") == ""
	p.mu.Lock()
	defer p.mu.Unlock()
	if !isWrite || p.left == 0 {
		return nil, nil, false
	}
	if p.left--; p.left > 0 {
		return nil, nil, false
	}
	return p.reached, p.killed, p.after
}

// ServeHTTP forwards a request, or holds it until the agent is killed.
func (p *writePath) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reached, killed, after := p.holds(r)
	if reached == nil {
		p.proxy.ServeHTTP(w, r)
		return
	}
	what := "before " + r.Method + " " + r.URL.Path
	if after {
		what = "after " + r.Method + " " + r.URL.Path
		p.proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
	reached <- what
	select {
	case <-killed:
	case <-time.After(programs.Timeout):
	}
}
