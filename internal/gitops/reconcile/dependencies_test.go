package reconcile_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/outbound"
)

// chartServer is a Helm repository with the chart redis in some versions.
type chartServer struct {
	*httptest.Server
	mu       sync.Mutex
	versions []string
	// more are other charts of the index.
	more     string
	requests int
	// polls has an element for each request for the index.
	polls chan struct{}
}

// serveCharts starts one.
func serveCharts(t *testing.T, versions ...string) *chartServer {
	t.Helper()
	s := &chartServer{versions: versions, polls: make(chan struct{}, 10000)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests++
		if r.URL.Path == "/index.yaml" {
			s.polls <- struct{}{}
			text := "apiVersion: v1\nentries:\n  redis:\n"
			for _, version := range s.versions {
				text += fmt.Sprintf("  - {name: redis, version: %s, urls: [redis-%s.tgz]}\n", version, version)
			}
			_, _ = w.Write([]byte(text + s.more))
			return
		}
		version := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/redis-"), ".tgz")
		_, _ = w.Write(packedChart(t, version))
	}))
	t.Cleanup(s.Close)
	return s
}

// packedChart is the chart redis, whose ConfigMap has its version as value.
func packedChart(t *testing.T, version string) []byte {
	t.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	for path, text := range map[string]string{
		"redis/Chart.yaml": "apiVersion: v2\nname: redis\nversion: " + version + "\n", "redis/templates/a.yaml": configMap("redis", "{{ .Chart.Version }}"),
	} {
		must.Do(t, archive.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		must.Get(archive.Write([]byte(text)))(t)
	}
	must.Do(t, archive.Close())
	must.Do(t, compressed.Close())
	return out.Bytes()
}

// shop is a chart that depends on redis.
func shop(repository string) map[string]string {
	return map[string]string{
		"shop/Chart.yaml":       "apiVersion: v2\nname: shop\nversion: 0.1.0\ndependencies: [{name: redis, version: 1.x, repository: \"" + repository + "\"}]\n",
		"shop/templates/a.yaml": configMap("shop", "1"),
	}
}

// chart makes an Application of a chart.
func (w *world) chart(name, repository, chart string) {
	w.t.Helper()
	w.cluster.Apply(w.t, w.control, fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %s}
spec:
  project: default
  source: {repoURL: %q, chart: %s, targetRevision: 1.x}
  destination: {server: https://kubernetes.default.svc, namespace: %s}
  syncPolicy: {automated: {selfHeal: true}}
`, name, repository, chart, w.target))
}

// A chart whose archive is at an address that is not connected to, or on a server
// that does not respond, fails alone: other charts of the repository are deployed
// and follow it.
func TestChartFailsAlone(t *testing.T) {
	w := newWorld(t)
	w.outbound = outbound.New(outbound.Loopback()...)
	w.options.Interval, w.options.Jitter = 300*time.Millisecond, time.Millisecond
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	charts := serveCharts(t, "1.0.0")
	charts.more = "  inside:\n  - {name: inside, version: 1.0.0, urls: [\"http://169.254.169.254/inside.tgz\"]}\n" +
		"  away:\n  - {name: away, version: 1.0.0, urls: [\"" + away.URL + "/away.tgz\"]}\n"
	w.start()
	for _, name := range []string{"inside", "away", "redis"} {
		w.chart(name, charts.URL, name)
	}
	w.condition("inside", v1alpha1.ConditionComparisonError, "Chart inside: urls: the archive of version 1.0.0 in the index: 169.254.169.254 is an address of the local link")
	w.condition("away", v1alpha1.ConditionComparisonError, charts.URL)
	w.value("redis", "1.0.0")
	charts.mu.Lock()
	charts.versions = append(charts.versions, "1.1.0")
	charts.mu.Unlock()
	w.value("redis", "1.1.0")
}

// The chart that a chart depends on is fetched from its repository and applied.
// It is polled like a source: a new version in the range is rendered without a
// commit, and applied with selfHeal; an unchanged one is not rendered again.
func TestChartDependency(t *testing.T) {
	w := newWorld(t)
	charts := serveCharts(t, "1.0.0")
	w.options.Interval, w.options.Jitter = 300*time.Millisecond, time.Millisecond
	repository := w.repository("shop", shop(charts.URL))
	w.start()
	w.application("shop", repository, "shop", "{automated: {selfHeal: true}}")
	w.synced("shop", repository.Head(t))
	w.value("redis", "1.0.0")
	w.value("shop", "1")
	rendered := w.renders.Load()
	repository.Commit(t, map[string]string{"README.md": "nothing that is rendered"}, "readme")
	for range 8 {
		<-charts.polls
	}
	charts.mu.Lock()
	charts.versions = append(charts.versions, "1.1.0", "2.0.0")
	charts.mu.Unlock()
	w.value("redis", "1.1.0")
	if now := w.renders.Load(); now != rendered+1 {
		t.Errorf("%d renders for one change", now-rendered)
	}
}

// A repository that the project does not allow is not asked for a dependency, and
// the condition has the chart, what it depends on, and the field to change.
func TestForbiddenDependency(t *testing.T) {
	w, own, _ := tenant(t, "")
	charts := serveCharts(t, "1.0.0")
	own.Commit(t, shop(charts.URL), "shop")
	w.applicationIn("team", "shop", own, "shop", "{automated: {}}")
	w.refresh("shop")
	app := w.condition("shop", v1alpha1.ConditionInvalidSpecError, "the chart shop depends on redis 1.x")
	if text := summaryOf(app); !strings.Contains(text, charts.URL) || !strings.Contains(text, "sourceRepos") {
		t.Errorf("the Application is %s", text)
	}
	if charts.requests > 0 || w.exists("redis") || w.exists("shop") {
		t.Errorf("%d requests for charts", charts.requests)
	}
}

// What another Application of the project needed is no permission: a dependency
// that the project does not allow any more is refused for the next one.
func TestHintIsNoPermission(t *testing.T) {
	w := newWorld(t)
	charts := serveCharts(t, "1.0.0")
	repository := w.repository("shop", shop(charts.URL))
	w.project("team", "description: of a test")
	w.start()
	w.applicationIn("team", "shop", repository, "shop", automated)
	w.synced("shop", repository.Head(t))
	projects := w.cluster.Dynamic.Resource(v1alpha1.ProjectResource()).Namespace(w.control)
	kubetest.Patch(t, projects, "team", fmt.Sprintf(`{"spec": {"sourceRepos": [%q]}}`, repository.URL()))
	w.condition("shop", v1alpha1.ConditionInvalidSpecError, "the chart shop depends on redis 1.x")
	w.applicationIn("team", "second", repository, "shop", automated)
	w.condition("second", v1alpha1.ConditionInvalidSpecError, "the chart shop depends on redis 1.x")
}

// A chart repository that does not respond delays only those that need it: they
// occupy neither workers nor renders.
func TestHangingDependency(t *testing.T) {
	w := newWorld(t)
	arrived, release := make(chan struct{}, 1000), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	repository := w.repository("shop", shop(server.URL))
	repository.Commit(t, map[string]string{"web/a.yaml": configMap("web", "1")}, "web")
	w.start()
	for i := range 2*runtime.GOMAXPROCS(0) + 2 {
		w.application(fmt.Sprintf("shop-%d", i), repository, "shop", "{automated: {}}")
	}
	<-arrived
	w.application("web", repository, "web", "{automated: {}}")
	w.synced("web", repository.Head(t))
	w.value("web", "1")
	w.condition("shop-0", v1alpha1.ConditionComparisonError, "the chart shop depends on redis 1.x: "+server.URL)
}
