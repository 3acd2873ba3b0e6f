package gitops

import (
	"bytes"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

// growth is how much memory the agent may take for one large input, beyond what
// it had before.
const growth = 64 << 20

// testMemory gives the agent large inputs, one after the other: those that are
// used, and those that are refused. The agent does not grow with them, and
// another Application goes on.
func (s *suite) testMemory(t *testing.T) {
	m := &large{hostility: &hostility{suite: s, git: gittest.Serve(t), control: s.cluster.Namespace(t), target: s.cluster.Namespace(t)}}
	m.chart = packChart(t)
	m.agent = s.start(t, m.control, "--leaderElection.enabled=false", "--render.workers=1")
	m.good = m.git.Repository(t, "good", settings("0"))
	s.application(t, m.control, m.target, "good", mainOf(m.good))
	agentprocess.Await(t, s.applications(m.control), "good", agentprocess.InOrder(m.good.Head(t)))
	// What only the first chart and the first set need is there from now on.
	m.charts(t, "small", m.versions(1<<10))
	m.set(t, "small", map[string]string{"app.json": `{"name": "x"}`}, "up to date")

	t.Run("index 15 MiB of one chart", func(t *testing.T) { m.charts(t, "one", m.versions(15<<20)) })
	t.Run("index 15 MiB as JSON", func(t *testing.T) { m.charts(t, "json", m.asJSON(15<<20)) })
	t.Run("index 128 MiB", func(t *testing.T) { m.charts(t, "all", m.many(128<<20)) })
	t.Run("index 129 MiB", func(t *testing.T) { m.refusedCharts(t, "more", m.many(129<<20), "sources.indexLimit") })
	t.Run("index 15 MiB in unusual form", func(t *testing.T) {
		m.refusedCharts(t, "unusual", []byte("entries: {x: ["+strings.Repeat("{version: 1.0.0},\n", 15<<20/18)+"]}"), "helm repo index")
	})
	t.Run("ApplicationSet file 50 MiB", func(t *testing.T) {
		m.set(t, "file", map[string]string{"app.json": "[" + strings.Repeat(`{"name": "x"},`, 50<<20/14) + "]"}, "may have 1048576: split it")
	})
	t.Run("ApplicationSet files 50 MiB", func(t *testing.T) {
		files := map[string]string{}
		for i := range 50 {
			files[fmt.Sprintf("%d/app.yaml", i)] = fmt.Sprintf("name: x%d\nlist: [%s]\n", i, strings.Repeat("{a: 1},", 1<<20/7-10))
		}
		m.set(t, "files", files, "of the agent")
	})
}

// large is an agent, and large inputs for it.
type large struct {
	*hostility
	agent *agentprocess.Agent
	chart []byte
}

// versions is an index of one chart with many versions, of which the last is
// used.
func (m *large) versions(size int) []byte {
	var index bytes.Buffer
	index.WriteString("apiVersion: v1\nentries:\n  settings:\n")
	for i := 0; index.Len() < size; i++ {
		writeVersion(&index, "settings", fmt.Sprintf("0.0.%d", i), "settings-0.0.tgz")
	}
	writeVersion(&index, "settings", chartVersion, "settings.tgz")
	index.WriteString("generated: \"2026-01-01T00:00:00Z\"\n")
	return index.Bytes()
}

// many is an index of exactly this size, with many charts.
func (m *large) many(size int) []byte {
	var index bytes.Buffer
	index.WriteString("apiVersion: v1\nentries:\n")
	for i := 0; index.Len() < size-64<<10; i++ {
		chart := fmt.Sprintf("chart-%06d", i)
		fmt.Fprintf(&index, "  %s:\n", chart)
		for version := range 30 {
			writeVersion(&index, chart, fmt.Sprintf("1.%d.0", version), fmt.Sprintf("https://github.com/example/charts/releases/download/%s-1.%d.0/%s.tgz", chart, version, chart))
		}
	}
	index.WriteString("  settings:\n")
	writeVersion(&index, "settings", chartVersion, "settings.tgz")
	index.WriteString("x: ")
	index.WriteString(strings.Repeat("x", size-index.Len()-1) + "\n")
	return index.Bytes()
}

// asJSON is an index that is JSON.
func (m *large) asJSON(size int) []byte {
	var index bytes.Buffer
	index.WriteString(`{"apiVersion":"v1","entries":{"settings":[`)
	for i := 0; index.Len() < size; i++ {
		fmt.Fprintf(&index, `{"description":%q,"version":"0.0.%d","urls":["settings-0.0.tgz"]},`, strings.Repeat("text ", 100), i)
	}
	fmt.Fprintf(&index, `{"version":%q,"urls":["settings.tgz"]}]}}`, chartVersion)
	return index.Bytes()
}

// writeVersion writes a version as helm repo index does.
func writeVersion(index *bytes.Buffer, chart, version, url string) {
	fmt.Fprintf(index, `  - apiVersion: v2
    annotations:
      category: Infrastructure
      images: |
        - name: %[1]s
          image: docker.io/example/%[1]s:%[2]s
        - name: os-shell
          image: docker.io/example/os-shell:12
    appVersion: %[2]s
    created: "2026-01-01T00:00:00.000000000Z"
    dependencies:
    - name: common
      repository: oci://registry.example.com/charts
      version: 2.x.x
    description: %[1]s is a chart for tests, with a description that is long enough
      to be folded over several lines, as that of most charts is.
    digest: ""
    home: https://example.com
    icon: https://example.com/assets/%[1]s/img/%[1]s-stack-220x234.png
    keywords:
    - test
    - memory
    maintainers:
    - name: Example
      url: https://github.com/example/charts
    name: %[1]s
    sources:
    - https://github.com/example/charts/tree/main/%[1]s
    urls:
    - %[3]s
    version: %[2]s
`, chart, version, url)
}

// charts makes an Application of a chart in a repository with this index, and
// waits until it is synced.
func (m *large) charts(t *testing.T, name string, index []byte) {
	t.Helper()
	m.measure(t, func() { m.helm(t, name, index) }, func() {
		agentprocess.Await(t, m.applications(m.control), name, agentprocess.InOrder(chartVersion))
	})
}

// refusedCharts is charts for an index that is refused.
func (m *large) refusedCharts(t *testing.T, name string, index []byte, want string) {
	t.Helper()
	m.measure(t, func() { m.helm(t, name, index) }, func() {
		agentprocess.Await(t, m.applications(m.control), name, func(app *v1alpha1.Application) error {
			if text := agentprocess.Reported(app); !strings.Contains(text, want) {
				return fmt.Errorf("no condition says %q: %s", want, text)
			}
			return nil
		})
	})
}

// helm makes an Application of the chart settings.
func (m *large) helm(t *testing.T, name string, index []byte) {
	t.Helper()
	server := httptest.NewServer(pages{"/index.yaml": {content: index}, "/settings.tgz": {content: m.chart}})
	t.Cleanup(server.Close)
	m.application(t, m.control, m.target, name, fmt.Sprintf("{repoURL: %q, chart: settings, targetRevision: %q}", server.URL, chartVersion))
}

// set makes an ApplicationSet that reads these files, and waits until its
// conditions have the wanted text.
func (m *large) set(t *testing.T, name string, files map[string]string, want string) {
	t.Helper()
	repository := m.git.Repository(t, "set-"+name, files)
	sets := m.cluster.Dynamic.Resource(v1alpha1.SetResource()).Namespace(m.control)
	begin := func() {
		m.cluster.Apply(t, m.control, fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: %s}
spec:
  goTemplate: true
  generators: [{git: {repoURL: %q, revision: main, files: [{path: '**'}]}}]
  template:
    metadata: {name: '%s-{{.name}}'}
    spec: {project: default, source: {repoURL: %q, path: app}, destination: {namespace: %s}}
`, name, repository.URL(), name, m.good.URL(), m.target))
	}
	m.measure(t, begin, func() {
		kubetest.WaitFor(t, sets, kube.Named(name), programs.Timeout, func(found []*unstructured.Unstructured) error {
			if len(found) == 0 {
				return errors.New("there is no such set")
			}
			conditions, _, _ := unstructured.NestedSlice(found[0].Object, "status", "conditions")
			if text := fmt.Sprint(conditions); !strings.Contains(text, want) {
				return fmt.Errorf("no condition says %q: %.2000s", want, text)
			}
			return nil
		})
	})
}

// measure begins something, changes another Application meanwhile, and waits for
// both. It fails if the agent takes more memory than it may.
func (m *large) measure(t *testing.T, begin, await func()) {
	t.Helper()
	// The kernel begins to look for the highest value from now on.
	must.Do(t, os.WriteFile(filepath.Join("/proc", strconv.Itoa(m.agent.PID()), "clear_refs"), []byte("5"), 0o200))
	before := must.Get(programs.ReadMemory(m.agent.PID()))(t)
	begin()
	m.push(t)
	await()
	after := must.Get(programs.ReadMemory(m.agent.PID()))(t)
	t.Logf("the agent had %d MiB and grew by %d MiB at most; a push to another Application was live after %s at most",
		before.Resident>>20, (after.Most-before.Resident)>>20, m.slowest)
	if grown := after.Most - before.Resident; grown > growth {
		t.Errorf("the agent grew by %d bytes, and may by %d", grown, growth)
	}
}
