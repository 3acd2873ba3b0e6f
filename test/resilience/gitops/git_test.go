package gitops

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

const (
	// fetchTimeout is what the agent gives a request to Git, and tooSlow a time
	// that is longer.
	fetchTimeout = 2 * time.Second
	tooSlow      = 10 * time.Second
	// slack is for a busy machine, and for the two seconds in which a failure is
	// believed that the agent has just met.
	slack = 30 * time.Second
)

// trouble is something that happens to a repository or its server.
type trouble struct {
	name string
	// begins makes it happen; it is over when what it returns was called.
	begins func(t *testing.T, g *gitScene) (over func())
	// want is in the condition of the Application.
	want string
}

func troubles() []trouble {
	return []trouble{
		{"down", func(_ *testing.T, g *gitScene) func() {
			g.server.SetDown(true)
			return func() { g.server.SetDown(false) }
		}, "the connection broke"},
		{"slow", func(_ *testing.T, g *gitScene) func() {
			g.server.SetDelay(tooSlow)
			return func() { g.server.SetDelay(0) }
		}, "no response in time"},
		{"a page for people", answers(http.StatusOK, "text/html", "<html><body>Please sign in</body></html>"), `its response is not that of a Git server: the content is "text/html"`},
		{"nonsense", answers(http.StatusOK, advertisement, "zzzz\x00\xff\xfe"), "its response is not that of a Git server"},
		{"says that there is nothing", answers(http.StatusOK, advertisement, "001e# service=git-upload-pack\n00000000"), noMain},
		{"broken", answers(http.StatusInternalServerError, "text/plain", "out of order"), "the server responds 500"},
		{"not found", answers(http.StatusNotFound, "text/plain", "no such repository"), "the server does not have it"},
		{"branch deleted", func(t *testing.T, g *gitScene) func() { return g.withoutMain(t, "other") }, noMain},
		{"empty repository", func(t *testing.T, g *gitScene) func() { return g.withoutMain(t, "") }, noMain},
		{"folder deleted", func(t *testing.T, g *gitScene) func() {
			before := g.repository.Head(t)
			g.repository.Delete(t, "app")
			return func() { g.repository.Reset(t, before) }
		}, `the folder "app" does not exist`},
		{"all manifests deleted", func(t *testing.T, g *gitScene) func() {
			before := g.repository.Head(t)
			g.repository.Delete(t, "app")
			g.repository.Commit(t, map[string]string{"app/README": "moved elsewhere"}, "nothing")
			return func() { g.repository.Reset(t, before) }
		}, "allowEmpty"},
		{"a manifest that is no YAML", func(t *testing.T, g *gitScene) func() {
			before := g.repository.Head(t)
			g.repository.Commit(t, map[string]string{"app/broken.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a\n"}, "broken")
			return func() { g.repository.Reset(t, before) }
		}, "app/broken.yaml"},
	}
}

// noMain is the error of an Application whose branch is not there.
const noMain = `there is no branch, tag or commit "main"`

// advertisement is the Content-Type of a Git server's response.
const advertisement = "application/x-git-upload-pack-advertisement"

// answers gives every request the same response.
func answers(status int, kind, text string) func(*testing.T, *gitScene) func() {
	return func(_ *testing.T, g *gitScene) func() {
		g.server.SetHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		}))
		return func() { g.server.SetHandler(nil) }
	}
}

// gitScene is an Application whose Git server is in trouble.
type gitScene struct {
	*suite
	control    string
	server     *gittest.Server
	repository *gittest.Repository
	recorder   *agentprocess.Recorder
	pushes     int
}

// testGit: whatever becomes of Git, nothing in the cluster changes until Git can
// be read again.
func (s *suite) testGit(t *testing.T) {
	g := &gitScene{suite: s, control: s.cluster.Namespace(t), server: gittest.Serve(t)}
	target := s.cluster.Namespace(t)
	g.recorder = agentprocess.Record(t, s.cluster.Cluster, target)
	g.repository = g.server.Repository(t, "app", map[string]string{
		"app/a.yaml": configMap("a", 0, 0), "app/b.yaml": configMap("b", 0, 1), "app/c.yaml": configMap("c", 0, 2),
	})
	agentprocess.Start(t, s.options(g.control, "--sources.fetchTimeout="+fetchTimeout.String()))
	s.application(t, g.control, target, g.repository)
	s.synced(t, g.control, g.repository.Head(t))
	for _, one := range troubles() {
		t.Run(one.name, func(t *testing.T) { g.suffer(t, one) })
	}
	t.Run("history forced", g.testForced)
}

// suffer lets a fault come and go, and checks what the Application reports.
func (g *gitScene) suffer(t *testing.T, one trouble) {
	before := g.state(t)
	over := one.begins(t, g)
	app := agentprocess.Await(t, agentprocess.Applications(g.cluster.Cluster, g.control), "app", func(app *v1alpha1.Application) error {
		if !slices.ContainsFunc(app.Status.Conditions, func(condition v1alpha1.ApplicationCondition) bool {
			return strings.HasSuffix(condition.Type, "Error") && strings.Contains(condition.Message, one.want)
		}) {
			return fmt.Errorf("no condition says %q: %s", one.want, agentprocess.Reported(app))
		}
		return nil
	})
	g.awaitRequests(t, 2)
	if now := g.state(t); now != before {
		t.Errorf("the objects changed meanwhile from\n%s\nto\n%s", before, now)
	}
	t.Logf("it says %s", agentprocess.Reported(app))

	over()
	g.pushes++
	commit := g.repository.Commit(t, map[string]string{"app/a.yaml": configMap("a", g.pushes, 0)}, "after "+one.name)
	began := time.Now()
	app = g.synced(t, g.control, commit)
	took := time.Since(began)
	t.Logf("a push was live %s after the end of it", took.Round(time.Millisecond))
	if took > agentprocess.Interval+fetchTimeout+slack {
		t.Errorf("it took %s to recover, with an interval of %s", took, agentprocess.Interval)
	}
	if len(app.Status.Conditions) > 0 {
		t.Errorf("it still says %s", agentprocess.Reported(app))
	}
}

// withoutMain removes the branch of the Application, and has another left if one
// is named.
func (g *gitScene) withoutMain(t *testing.T, other string) func() {
	t.Helper()
	before := g.repository.Head(t)
	if other != "" {
		g.repository.Branch(t, other)
	}
	g.repository.DeleteBranch(t, gittest.Main)
	return func() {
		g.repository.Reset(t, before)
		if other != "" {
			g.repository.DeleteBranch(t, other)
		}
	}
}

// state is every object that ever was and its version, as the watch has it.
func (g *gitScene) state(t *testing.T) string {
	t.Helper()
	lives := g.recorder.Await(t, func(lives []agentprocess.Life) error {
		for i := range lives {
			if lives[i].Name == "a" && value(&lives[i]) == fmt.Sprint(g.pushes) {
				return nil
			}
		}
		return fmt.Errorf("push %d is not there", g.pushes)
	})
	var text string
	for i := range lives {
		text += fmt.Sprintf("%s %s version %s deletions %d\n", lives[i].ID(), lives[i].UID, lives[i].Last.GetResourceVersion(), lives[i].Deletions)
	}
	return text
}

// awaitRequests waits until Git was asked so many times more: the agent has had
// the time to do something wrong.
func (g *gitScene) awaitRequests(t *testing.T, more int) {
	t.Helper()
	want := len(g.server.Requests()) + more
	programs.Until(t, "Git is asked again", func() bool { return len(g.server.Requests()) >= want })
}

// testForced: a branch whose history was replaced is followed, and what that
// does not have is pruned: Git no longer has it.
func (g *gitScene) testForced(t *testing.T) {
	first := g.repository.Git(t, "rev-list", "--max-parents=0", "refs/heads/"+gittest.Main)
	g.repository.Reset(t, first)
	g.pushes++
	commit := g.repository.Commit(t, map[string]string{"app/a.yaml": configMap("a", g.pushes, 0), "app/c.yaml": gittest.Gone}, "another history")
	g.synced(t, g.control, commit)
	g.recorder.Await(t, func(lives []agentprocess.Life) error {
		var there []string
		for i := range lives {
			if lives[i].Deletions == 0 && lives[i].Name != "kube-root-ca.crt" {
				there = append(there, lives[i].Name+"="+value(&lives[i]))
			}
		}
		slices.Sort(there)
		if want := []string{fmt.Sprintf("a=%d", g.pushes), "b=0"}; !slices.Equal(there, want) {
			return fmt.Errorf("there are %v, and not %v", there, want)
		}
		return nil
	})
}
