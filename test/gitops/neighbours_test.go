package gitops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

// diskPerProject is the disk space of a project in these tests: the least that
// the agent takes.
const diskPerProject = 64 << 20

// testNeighbours has a project that uses all it can get beside one that does not:
// renders that do not end, and repositories that do not fit on the disk.
func (s *suite) testNeighbours(t *testing.T) {
	n := &neighbours{hostility: &hostility{suite: s, git: gittest.Serve(t), control: s.cluster.Namespace(t), target: s.cluster.Namespace(t)}}
	n.cache = t.TempDir()
	n.agent = s.start(t, n.control, "--leaderElection.enabled=false", "--applications.workers=2", "--render.workers=1", "--render.timeout=2s",
		"--applications.pollInterval=3s", fmt.Sprint("--sources.diskPerProject=", diskPerProject), "--sources.cacheDir="+n.cache)
	for _, name := range []string{"quiet", "loud"} {
		s.cluster.Apply(t, n.control, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: %s}
spec: {sourceRepos: ['*'], destinations: [{server: '*', namespace: '*'}]}
`, name))
	}
	t.Run("workers", n.testWorkers)
	t.Run("disk", n.testDisk)
}

// neighbours are two projects of one agent.
type neighbours struct {
	*hostility
	agent *agentprocess.Agent
	cache string
}

// application makes an Application of a project.
func (n *neighbours) application(t *testing.T, project, name, source string) {
	t.Helper()
	n.cluster.Apply(t, n.control, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %s, labels: {project: %s}}
spec:
  project: %s
  source: %s
  destination: {server: https://kubernetes.default.svc, namespace: %s}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`, name, project, project, source, n.target))
}

// testWorkers: renders of one project that do not end keep all workers busy for
// minutes, and the other project goes on meanwhile.
func (n *neighbours) testWorkers(t *testing.T) {
	// One after the other they take four minutes, longer than a push is waited for.
	const count = 120
	endless := n.git.Repository(t, "endless", map[string]string{
		"app/Chart.yaml":       "apiVersion: v2\nname: a\nversion: 0.1.0\n",
		"app/templates/a.yaml": "{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}",
	})
	for i := range count {
		n.application(t, "loud", fmt.Sprint("endless-", i), mainOf(endless))
	}
	n.awaitEnded(t)
	n.good = n.git.Repository(t, "quiet", settings("0"))
	n.application(t, "quiet", "good", mainOf(n.good))
	agentprocess.Await(t, n.applications(n.control), "good", agentprocess.InOrder(n.good.Head(t)))
	for range 3 {
		n.push(t)
	}
	ended := n.ended(t)
	t.Logf("%d of %d endless renders were ended meanwhile; a push was live after %s at most", ended, count, n.slowest)
	if ended == count {
		t.Error("all renders of the other project went first")
	}
	for i := range count {
		n.remove(t, fmt.Sprint("endless-", i))
	}
}

// ofLoud selects the Applications of the project that uses all it can get.
var ofLoud = kube.Labelled("project=loud")

// awaitEnded waits until one render of any Application was ended, so that the
// others wait for workers.
func (n *neighbours) awaitEnded(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programs.Timeout)
	defer cancel()
	_, err := kube.WaitFor(ctx, n.applications(n.control), ofLoud, func(found []*unstructured.Unstructured) error {
		if !slices.ContainsFunc(found, renderEnded) {
			return errors.New("no render was ended yet")
		}
		return nil
	})
	must.Do(t, err)
}

// ended is how many Applications report that their render was ended.
func (n *neighbours) ended(t *testing.T) (count int) {
	t.Helper()
	list := must.Get(n.applications(n.control).List(t.Context(), ofLoud))(t)
	for i := range list.Items {
		if renderEnded(&list.Items[i]) {
			count++
		}
	}
	return count
}

// renderEnded reports whether a condition of an Application has the end of its
// render.
func renderEnded(object *unstructured.Unstructured) bool {
	app, _, err := v1alpha1.Decode(object.Object)
	return err == nil && strings.Contains(agentprocess.Reported(app), "took longer than 2s")
}

// testDisk: repositories of one project that do not fit together come and go, one
// that does not fit alone is refused, and the other project is not fetched again.
func (n *neighbours) testDisk(t *testing.T) {
	fetches := func() (count int) {
		for _, request := range n.git.Requests() {
			if strings.Contains(request, "POST") && strings.Contains(request, "/quiet.git/") {
				count++
			}
		}
		return count
	}
	before := fetches()
	for i := range 3 {
		large := n.git.Repository(t, fmt.Sprint("large-", i), map[string]string{"app/settings.yaml": config(fmt.Sprint("large-", i)), "data": noise(i, 30<<20)})
		name := fmt.Sprint("large-", i)
		n.application(t, "loud", name, mainOf(large))
		agentprocess.Await(t, n.applications(n.control), name, agentprocess.InOrder(large.Head(t)))
	}
	huge := n.git.Repository(t, "huge", map[string]string{"app/settings.yaml": config("huge"), "data": noise(9, 70<<20)})
	n.application(t, "loud", "huge", mainOf(huge))
	agentprocess.Await(t, n.applications(n.control), "huge", func(app *v1alpha1.Application) error {
		text := agentprocess.Reported(app)
		for _, want := range []string{"project loud", "the limit is 64Mi", "sources.diskPerProject"} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("no condition has %q: %s", want, text)
			}
		}
		return nil
	})
	if more := fetches() - before; more != 0 {
		t.Errorf("the other project was fetched %d times", more)
	}
	n.push(t)
	metrics, err := programs.Fetch(t.Context(), "http://"+n.agent.Address(t, "health")+"/metrics")
	must.Do(t, err)
	for _, one := range []struct {
		name, project string
		least, most   float64
	}{
		{"evictions_total", "loud", 1, 1e9},
		{"evictions_total", "quiet", 0, 0},
		{"disk_bytes", "loud", 0, diskPerProject}, // it may be between two fetches
		{"disk_bytes", "quiet", 1, 1 << 20},
	} {
		got, _, err := programs.Metric(metrics, "slipway_gitops_source_"+one.name, fmt.Sprintf("project=%q", one.project))
		if err != nil || got < one.least || got > one.most {
			t.Errorf("%s of project %s is %v, %v", one.name, one.project, got, err)
		}
	}
	used := diskUsage(t, n.cache)
	t.Logf("%d MiB are on the disk", used>>20)
	if used > diskPerProject+2<<20 {
		t.Errorf("%d bytes are on the disk", used)
	}
}

// config is a ConfigMap of a name.
func config(name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n", name)
}

// noise is text that no compression makes smaller.
func noise(seed, size int) string {
	text := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(text)
	return string(text)
}

// diskUsage is the size of all files in a folder.
func diskUsage(t *testing.T, folder string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(folder, func(_ string, one fs.DirEntry, err error) error {
		if err == nil && !one.IsDir() {
			var info fs.FileInfo
			if info, err = one.Info(); err == nil {
				bytes += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was evicted meanwhile
		}
		return err
	})
	must.Do(t, err)
	return bytes
}
