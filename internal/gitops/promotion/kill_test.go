package promotion_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// TestKill: the process of the controller is killed with SIGKILL at a write of a
// promotion through three environments, to the API server or to Git: before the write, or
// after it and before the response. The next process brings it to the same end, and each
// environment has exactly one commit. The long form has every write, the short one a few
// that differ from run to run.
func TestKill(t *testing.T) {
	w := newWorld(t)
	between := &killPoint{}
	kubeconfig, gitURL := between.serve(t, w)
	w.objects(t, gitURL, nil)
	w.startEngine(t)
	w.awaitSynced(t, "web-prod", "")
	start := w.processes(t, kubeconfig)
	process := start()
	stride := 5
	if os.Getenv("RESILIENCE") == "long" {
		stride = 1
	}
	kills := 0
	var names []string
	for write := 1 + int(programs.Setting(t, "RESILIENCE_SEED", time.Now().UnixNano())%int64(stride)); ; write += stride {
		killed := 0
		for _, after := range []bool{false, true} {
			name := fmt.Sprintf("kill-%d-%t", write, after)
			version := fmt.Sprintf("v%d-%t", write, after)
			names = append(names, name)
			w.setVersion(t, version)
			reached := between.arm(write, after)
			ended := make(chan struct{})
			w.promote(t, name, "")
			go func() {
				defer close(ended)
				w.promoted(t, name, version)
			}()
			what := "no such write"
			select {
			case what = <-reached:
				process.Kill()
				between.disarm()
				killed++
				process = start()
				<-ended
			case <-ended:
				between.disarm()
			}
			t.Logf("killed at write %d: %s", write, what)
		}
		kills += killed
		if t.Failed() || killed == 0 {
			break
		}
	}
	lost, double := w.countCommits(t, names)
	t.Logf("%d kills, %d promotions to %d environments each: %d commits lost, %d double", kills, len(names), len(environments)-1, lost, double)
	if kills == 0 || lost+double > 0 {
		t.Error("there was no kill, or a commit is lost or double")
	}
}

// processes returns what starts a process with a controller.
func (w *world) processes(t *testing.T, kubeconfig string) (start func() *programs.Process) {
	t.Helper()
	sources := t.TempDir()
	return func() *programs.Process {
		command := exec.Command(must.Get(os.Executable())(t), controllerArgument)
		command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "NAMESPACE="+w.namespace, "SOURCES="+sources)
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		return programs.Run(t, "controller", command)
	}
}

// TestKillAutomatic: a process that is killed at the creation of a Promotion that begins
// by itself leaves one, or the next process creates it.
func TestKillAutomatic(t *testing.T) {
	w := newWorld(t)
	between := &killPoint{}
	kubeconfig, gitURL := between.serve(t, w)
	w.objects(t, gitURL, nil)
	w.startEngine(t)
	w.awaitSynced(t, "web-prod", "")
	w.automatic(t, "{name: to-prod}")
	start := w.processes(t, kubeconfig)
	process := start()
	for i, after := range []bool{false, true} {
		version := fmt.Sprintf("v%d", i+2)
		reached := between.arm(1, after)
		name := w.setVersionOf(t, version)
		if what := programs.Receive(t, reached, "the first write"); !strings.Contains(what, "POST") || !strings.HasSuffix(what, "/promotions") {
			t.Errorf("the first write is %s", what)
		}
		process.Kill()
		between.disarm()
		process = start()
		w.promoted(t, name, version)
		w.exist(t, i+1)
	}
}

// countCommits returns how many commits of promotions are missing, and how many there are
// beside the first of each environment.
func (w *world) countCommits(t *testing.T, names []string) (lost, double int) {
	t.Helper()
	for _, name := range names {
		for _, environment := range environments[1:] {
			found := len(w.commits(t, "Promotion: "+w.namespace+"/"+name+"/"+environment))
			lost += max(0, 1-found)
			double += max(0, found-1)
		}
	}
	return lost, double
}

// killPoint is between the controller and both servers. It holds a write until the
// controller is killed.
type killPoint struct {
	mu      sync.Mutex // guards the rest
	left    int        // writes until the one that is held; 0 for none
	after   bool
	reached chan string
	killed  chan struct{}
}

// serve listens for the API server and the Git server, and returns a kubeconfig and the
// address of the repository.
func (k *killPoint) serve(t *testing.T, w *world) (kubeconfig, gitURL string) {
	t.Helper()
	serve := func(to string, transport http.RoundTripper, isWrite func(*http.Request) bool) string {
		target := must.Get(url.Parse(to))(t)
		proxy := &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1, Transport: transport,
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		}
		server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
			if isWrite(request) {
				k.pass(proxy, response, request)
				return
			}
			proxy.ServeHTTP(response, request)
		}))
		t.Cleanup(server.Close)
		t.Cleanup(server.CloseClientConnections)
		return server.URL
	}
	api := serve(w.Config.Host, must.Get(rest.TransportFor(w.Config))(t), func(r *http.Request) bool {
		return r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/events")
	})
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	must.Do(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: %q}}]\nusers: [{name: u, user: {}}]\n", api), 0o600))
	git := must.Get(url.Parse(w.repository.URL()))(t)
	proxied := serve(git.Scheme+"://"+git.Host, http.DefaultTransport, func(r *http.Request) bool {
		return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack")
	})
	return kubeconfig, proxied + git.Path
}

// arm holds a write, before or after it is carried out. The channel gets what it is.
func (k *killPoint) arm(write int, after bool) <-chan string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left, k.after, k.reached, k.killed = write, after, make(chan string, 1), make(chan struct{})
	return k.reached
}

// disarm lets all requests pass.
func (k *killPoint) disarm() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left = 0
	close(k.killed)
}

// holds reports whether a write is held, and how.
func (k *killPoint) holds() (reached chan string, killed chan struct{}, after bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left == 0 {
		return nil, nil, false
	}
	if k.left--; k.left > 0 {
		return nil, nil, false
	}
	return k.reached, k.killed, k.after
}

// pass forwards a write, or holds it until the controller is killed.
func (k *killPoint) pass(next http.Handler, response http.ResponseWriter, request *http.Request) {
	reached, killed, after := k.holds()
	if reached == nil {
		next.ServeHTTP(response, request)
		return
	}
	what := "before " + request.Method + " " + request.URL.Path
	if after {
		what = "after " + request.Method + " " + request.URL.Path
		next.ServeHTTP(httptest.NewRecorder(), request)
	}
	reached <- what
	select {
	case <-killed:
	case <-time.After(programs.Timeout):
	}
}
