package revert_test

import (
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/revert"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// world is a repository with a past sync and a newer commit.
type world struct {
	repository  *gittest.Repository
	first       string
	credentials *credential.Store
	sources     *source.Sources
	app         *v1alpha1.Application
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{credentials: &credential.Store{}}
	w.repository = gittest.Serve(t).Repository(t, "team/shop", map[string]string{
		"app/a.yaml": "one", "app/sub/b.yaml": "b", "values/prod.yaml": "v: 1", "base/x.yaml": "x: 1", "other/o": "o: 1",
	})
	w.repository.Program(t, "app/run.sh", "#!/bin/sh\n")
	w.first = w.repository.Head(t)
	w.repository.Delete(t, "app/sub/b.yaml")
	w.repository.Commit(t, map[string]string{"app/a.yaml": "two", "app/new.yaml": "n", "values/prod.yaml": "v: 2", "base/x.yaml": "x: 2", "other/o": "o: 2"}, "change")
	w.sources = must.Get(source.New(source.Options{Folder: t.TempDir(), Credentials: w.credentials}))(t)
	t.Cleanup(func() { _ = w.sources.Close() })
	w.app = &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "argocd", Annotations: map[string]string{
		"argocd.argoproj.io/manifest-generate-paths": ".;/base",
	}}}
	w.app.Spec.Source = &v1alpha1.ApplicationSource{
		RepoURL: w.repository.URL(), Path: "app", TargetRevision: "main", Helm: &v1alpha1.ApplicationSourceHelm{ValueFiles: []string{"../values/prod.yaml", "https://example.com/v.yaml"}},
	}
	return w
}

// request goes back to the first commit.
func (w *world) request() revert.Request {
	past := *w.app.Spec.Source
	past.TargetRevision = w.first
	return revert.Request{
		Sources: w.sources, Project: project.Default(), App: w.app, User: "ada@example.com",
		Past: &v1alpha1.SyncOperation{Revision: w.first, Source: &past},
	}
}

// differs lists the files that differ between two commits.
func (w *world) differs(t *testing.T, from, to string) string {
	t.Helper()
	return strings.Join(strings.Fields(w.repository.Git(t, "diff", "--name-only", from, to)), " ")
}

// The files of the Application are those of the past sync again, and no others.
func TestCommit(t *testing.T) {
	w := newWorld(t)
	second := w.repository.Head(t)
	written := must.Get(revert.Write(t.Context(), w.request()))(t)
	if len(written) != 1 || written[0].Branch != "main" || written[0].Commit != w.repository.Head(t) || written[0].PullRequest != "" {
		t.Fatalf("written is %+v", written)
	}
	if got := w.differs(t, w.first, "main"); got != "other/o" {
		t.Errorf("against the past sync differ %s", got)
	}
	if got := w.repository.Git(t, "ls-tree", "main", "app/run.sh"); !strings.HasPrefix(got, "100755") {
		t.Errorf("the program is %s", got)
	}
	if got := strings.TrimSpace(w.repository.Git(t, "rev-parse", "main^")); got != second {
		t.Errorf("the commit is based on %s", got)
	}
	if got := w.repository.Git(t, "log", "-1", "--format=%an%n%B"); !strings.HasPrefix(got, "ada@example.com\nRevert shop to "+w.first[:12]) || !strings.Contains(got, "Requested by ada@example.com") {
		t.Errorf("the commit is %s", got)
	}
	_, err := revert.Write(t.Context(), w.request())
	if _, refused := errors.AsType[*revert.StateError](err); !refused || !strings.Contains(err.Error(), "nothing to revert") {
		t.Errorf("the second error is %v", err)
	}
}

// An Application at the root of the repository takes all of it back.
func TestRoot(t *testing.T) {
	w := newWorld(t)
	w.app.Spec.Source.Path, w.app.Spec.Source.Helm, w.app.Spec.Source.TargetRevision = ".", nil, "HEAD"
	must.Get(revert.Write(t.Context(), w.request()))(t)
	if got := w.differs(t, w.first, "main"); got != "" {
		t.Errorf("there differ %s", got)
	}
}

// A pull request has the commit on a branch of its own; the same request finds it.
func TestPullRequest(t *testing.T) {
	w := newWorld(t)
	server := providertest.Start(t, gitprovider.Gitea, providertest.World{
		Tokens:       []providertest.Token{{Value: "canary", Username: "robot", Login: "robot"}},
		Repositories: []providertest.Repository{{Path: "team/shop"}},
	})
	git := httputil.NewSingleHostReverseProxy(must.Get(url.Parse(strings.TrimSuffix(w.repository.URL(), "/team/shop.git")))(t))
	server.Git = http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		// The test's Git server has no user.
		if strings.HasPrefix(in.URL.Path, "/api") || strings.HasPrefix(in.URL.Path, "/rest") {
			http.NotFound(out, in)
			return
		}
		in.Header.Del("Authorization")
		git.ServeHTTP(out, in)
	})
	address := server.URL + "/team/shop.git"
	w.app.Spec.Source.RepoURL = address
	w.credentials.SetCertificateAuthorities(map[string]string{strings.TrimPrefix(server.URL, "https://"): string(server.CA)})
	request := w.request()
	request.PullRequest = true
	if _, err := revert.Write(t.Context(), request); err == nil || !strings.Contains(err.Error(), "pull requests need a token") {
		t.Errorf("the error without a token is %v", err)
	}
	w.credentials.Set(types.NamespacedName{Name: "shop"}, credential.Credential{Scope: credential.Repository, Kind: credential.Git, URL: address, Username: "robot", Password: secret.New("canary")})
	before := w.repository.Head(t)
	written := must.Get(revert.Write(t.Context(), request))(t)
	again := must.Get(revert.Write(t.Context(), request))(t)
	if len(written) != 1 || written[0].PullRequest != server.URL+"/team/shop/pull/1" || again[0] != written[0] {
		t.Errorf("written is %+v, and then %+v", written, again)
	}
	pulls := server.Pulls("team/shop")
	if len(pulls) != 1 || pulls[0].Base != "main" || pulls[0].Head != written[0].Branch || !strings.HasPrefix(pulls[0].Title, "Revert shop to ") {
		t.Errorf("the pull requests are %+v", pulls)
	}
	if got := w.differs(t, w.first, written[0].Branch); got != "other/o" || w.repository.Head(t) != before {
		t.Errorf("there differ %s, and main is at %s", got, w.repository.Head(t))
	}
}

func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(w *world, request *revert.Request)
		want   string
	}{
		"another path": {func(w *world, r *revert.Request) { r.Past.Source.Path = "old" }, "has changed since that sync"},
		"more sources": {func(w *world, r *revert.Request) {
			r.Past.Source, r.Past.Sources = nil, make([]v1alpha1.ApplicationSource, 2)
		}, "has other sources"},
		"a tag":           {func(w *world, r *revert.Request) { w.app.Spec.Source.TargetRevision = "v1" }, "has no branch v1"},
		"another project": {func(w *world, r *revert.Request) { r.Project, _ = narrow() }, "does not allow the repository"},
		"outside": {func(w *world, r *revert.Request) {
			w.app.Spec.Source.Helm.ValueFiles = []string{"../../x"}
			r.Past.Source.Helm = w.app.Spec.Source.Helm
		}, "leaves the repository"},
		"a chart": {func(w *world, r *revert.Request) {
			w.app.Spec.Source.Chart, w.app.Spec.Source.TargetRevision = "web", "2.0.0"
			r.Past.Source.Chart, r.Past.Source.TargetRevision = "web", "1.0.0"
		}, "the version of the chart web is in the Application"},
	} {
		w := newWorld(t)
		request := w.request()
		tt.change(w, &request)
		before := w.repository.Head(t)
		if _, err := revert.Write(t.Context(), request); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if w.repository.Head(t) != before || strings.Contains(w.repository.Git(t, "branch", "--list"), "v1") {
			t.Errorf("%s: something was pushed", name)
		}
	}
}

// narrow is a project that allows no repository.
func narrow() (*project.Project, error) {
	compiled, refused := project.Compile(&v1alpha1.AppProject{ObjectMeta: metav1.ObjectMeta{Name: "narrow"}})
	if len(refused) > 0 {
		return nil, errors.New(refused[0].Message)
	}
	return compiled, nil
}
