package notify_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/notify"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/outbound"
	"slipway.dev/slipway/internal/programs"
)

// received is one message at a receiver.
type received struct{ path, key, body string }

// receiver keeps what was sent to it.
type receiver struct {
	address string

	mu  sync.Mutex
	all []received
	// handle decides about a request; nil accepts it.
	handle func(received) int
}

// add keeps a message.
func (r *receiver) add(one received) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, one)
}

// messages returns what was accepted.
func (r *receiver) messages() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.all...)
}

// newWebServer is a receiver over HTTP, which responds as Slack does.
func newWebServer(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		one := received{path: request.URL.Path, key: request.Header.Get("Idempotency-Key"), body: string(body)}
		if r.handle != nil {
			if status := r.handle(one); status != http.StatusOK {
				w.WriteHeader(status)
				return
			}
		}
		r.add(one)
		_, _ = io.WriteString(w, `{"ok":true,"channel":"C1","ts":"1.0"}`)
	}))
	t.Cleanup(server.Close)
	r.address = server.URL
	return r
}

// newMailServer is a receiver of mail. The key is the Message-ID.
func newMailServer(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.address = programs.Serve(t, "127.0.0.1:0", func(connection net.Conn) { r.serveMail(connection) }).String()
	return r
}

// serveMail is one session of SMTP.
func (r *receiver) serveMail(connection net.Conn) {
	lines := bufio.NewReader(connection)
	reply := func(text string) { _, _ = io.WriteString(connection, text+"\r\n") }
	reply("220 mail.example.com")
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		switch word, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(line)), " "); word {
		case "EHLO":
			reply("250 mail.example.com")
		case "DATA":
			reply("354 go on")
			mail := received{}
			for {
				line, err = lines.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				if key, is := strings.CutPrefix(line, "Message-ID: "); is {
					mail.key = strings.TrimSpace(key)
				}
				mail.body += line
			}
			r.add(mail)
			reply("250 stored")
		case "QUIT":
			reply("221 bye")
			return
		default:
			reply("250 ok")
		}
	}
}

var installOnce sync.Once

// world is a control namespace.
type world struct {
	*kubetest.Cluster
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kubetest.Shared(t)
	installOnce.Do(func() { argotest.Install(t, cluster) })
	return &world{Cluster: cluster, namespace: cluster.Namespace(t)}
}

// catalog applies Argo CD's catalog as it is published, with more keys.
func (w *world) catalog(t *testing.T, more map[string]string) {
	t.Helper()
	folder := programs.ModuleFolder(t, "github.com/argoproj/argo-cd/v3")
	text := must.Get(os.ReadFile(filepath.Join(folder, "notifications_catalog", "install.yaml")))(t)
	w.Apply(t, w.namespace, string(text))
	w.configure(t, more)
}

// configure sets keys of the ConfigMap.
func (w *world) configure(t *testing.T, keys map[string]string) {
	t.Helper()
	patch := must.Get(yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": notify.ConfigMap}, "data": keys,
	}))(t)
	must.Get(w.Client.CoreV1().ConfigMaps(w.namespace).Patch(t.Context(), notify.ConfigMap, types.ApplyYAMLPatchType, patch,
		metav1.PatchOptions{FieldManager: "operator", Force: new(true)}))(t)
}

// application creates an Application with annotations.
func (w *world) application(t *testing.T, name, annotations string) {
	t.Helper()
	w.Apply(t, w.namespace, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %s, annotations: {%s}}
spec:
  project: default
  source: {repoURL: "https://git.example.com/team/shop.git", path: ".", targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: shop}
`, name, annotations))
}

// deployed writes the status of an Application that was synced to a revision; the
// revision of the comparison can be another one.
func (w *world) deployed(t *testing.T, name, revision, compared string) {
	t.Helper()
	patch := fmt.Sprintf(`{"status": {"reconciledAt": "2026-01-01T10:01:00Z", "sync": {"status": "Synced", "revision": %q,
		"comparedTo": {"destination": {}, "source": {"repoURL": "https://git.example.com/team/shop.git"}}},
		"health": {"status": "Healthy", "lastTransitionTime": "2026-01-01T10:00:30Z"},
		"history": [{"id": 1, "revision": %q, "deployedAt": "2026-01-01T10:00:20Z"}],
		"operationState": {"phase": "Succeeded", "startedAt": "2026-01-01T10:00:00Z", "finishedAt": "2026-01-01T10:00:20Z",
			"operation": {"sync": {}}, "syncResult": {"revision": %q, "source": {"repoURL": "https://git.example.com/team/shop.git"}}}}}`, compared, revision, revision)
	must.Get(argotest.Applications(w.Cluster, w.namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"))(t)
}

// start runs a controller until the end of the test or until it is stopped.
func (w *world) start(t *testing.T, options ...kube.Option) (stop func()) {
	t.Helper()
	return w.startWith(t, func(*notify.Options) {}, options...)
}

// startWith is start with other options.
func (w *world) startWith(t *testing.T, change func(*notify.Options), options ...kube.Option) (stop func()) {
	t.Helper()
	renderer := must.Get(render.New(render.Options{Command: []string{must.Get(os.Executable())(t), "render-worker"}}))(t)
	given := notify.Options{
		Cluster: w.Connect(t, append(options, kube.Rate(500, 1000))...), ControlNamespace: w.namespace, Namespaces: []string{w.namespace},
		Evaluator: renderer, Outbound: outbound.New(outbound.Loopback()...), Identity: "one",
		Reporter: kube.Reporter{Controller: "slipway.dev/test", Instance: "one"},
	}
	if testing.Verbose() {
		given.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	change(&given)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	controller := notify.New(given)
	go func() { ended <- controller.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the controller ended: %v", err)
		}
		if err := renderer.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// await waits until receivers have so many messages.
func await(t *testing.T, want int, receivers ...*receiver) {
	t.Helper()
	programs.Eventually(t, func(context.Context) error {
		for i, one := range receivers {
			if got := one.messages(); len(got) < want {
				return fmt.Errorf("receiver %d has %d messages, and not %d: %v", i, len(got), want, got)
			}
		}
		return nil
	})
}

// exactly fails if receivers have another number of messages.
func exactly(t *testing.T, want int, receivers ...*receiver) {
	t.Helper()
	for i, one := range receivers {
		if got := one.messages(); len(got) != want {
			t.Errorf("receiver %d has %d messages, and not %d: %v", i, len(got), want, got)
		}
	}
}
