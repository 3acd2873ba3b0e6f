package source_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/secret"
)

// of is a revision of a repository for a project.
func of(t testing.TB, name, url, revision string) project.Admitted {
	t.Helper()
	admitted, err := project.Unlimited(name).Admit(v1alpha1.ApplicationSource{RepoURL: url, TargetRevision: revision, Path: "."})
	if err != nil {
		t.Fatal(err)
	}
	return admitted
}

// tokens is a Store with a token for each project; the empty one is for all.
func tokens(url string, byProject map[string]string) *credential.Store {
	store := &credential.Store{}
	for name, token := range byProject {
		store.Set(types.NamespacedName{Namespace: "argocd", Name: "of-" + name}, credential.Credential{
			Scope: credential.Repository, URL: url, Project: name, BearerToken: secret.New(token),
		})
	}
	return store
}

// Each project reads a repository with its own token, on a server that requires
// different ones. What one has read is not there for another: neither by a
// branch, nor by the id of a commit, nor from the disk of an earlier process.
func TestCredentialsByProject(t *testing.T) {
	server := gittest.Serve(t, gittest.RepositoryTokens("red", "red-token"), gittest.RepositoryTokens("both", "red-token", "blue-token"))
	red := server.Repository(t, "red", map[string]string{"README": "of red"})
	both := server.Repository(t, "both", map[string]string{"README": "of both"})
	store := tokens(red.URL(), map[string]string{"red": "red-token", "blue": "blue-token"})
	for name, token := range map[string]string{"red": "red-token", "blue": "blue-token"} {
		store.Set(types.NamespacedName{Namespace: "argocd", Name: "both-" + name}, credential.Credential{
			Scope: credential.Repository, URL: both.URL(), Project: name, BearerToken: secret.New(token),
		})
	}
	folder := t.TempDir()
	options := func(o *source.Options) { o.Folder, o.Credentials = folder, store }
	head := red.Head(t)
	for restart := range 2 {
		s := open(t, options)
		for _, revision := range []string{"main", head} {
			got, err := s.Resolve(t.Context(), of(t, "red", red.URL(), revision), time.Hour)
			if err != nil || read(t, got.Store, "README") != "of red" {
				t.Fatalf("%d: its project reads %v, %v", restart, got, err)
			}
			for _, name := range []string{"blue", "green", ""} {
				if _, err := s.Resolve(t.Context(), of(t, name, red.URL(), revision), time.Hour); !source.IsKind(err, source.Denied) {
					t.Errorf("%d: project %q reads %s: %v", restart, name, revision, err)
				}
				if _, err := s.Commit(t.Context(), of(t, name, red.URL(), revision)); !source.IsKind(err, source.Denied) {
					t.Errorf("%d: project %q reads the commit %s: %v", restart, name, revision, err)
				}
			}
		}
		for _, name := range []string{"red", "blue"} {
			got, err := s.Resolve(t.Context(), of(t, name, both.URL(), "main"), time.Hour)
			if err != nil || read(t, got.Store, "README") != "of both" {
				t.Errorf("%d: project %s reads %v, %v", restart, name, got, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A Secret without a project serves all of them with one request; one that is
// added for a project is used there and nowhere else, and one that is withdrawn
// takes what it opened with it.
func TestCredentialsChange(t *testing.T) {
	server := gittest.Serve(t, gittest.RepositoryTokens("shop", "shared", "own"))
	shop := server.Repository(t, "shop", map[string]string{"README": "hello"})
	store := tokens(shop.URL(), map[string]string{"": "shared"})
	s := open(t, func(o *source.Options) { o.Credentials = store })
	resolve := func(name string) error {
		_, err := s.Resolve(t.Context(), of(t, name, shop.URL(), "main"), time.Hour)
		return err
	}
	for _, name := range []string{"red", "blue"} {
		must(t, resolve(name))
	}
	if asked := count(server.Requests(), "info/refs"); asked != 1 {
		t.Errorf("%d requests for two projects with one credential", asked)
	}
	secretOf := types.NamespacedName{Namespace: "argocd", Name: "red"}
	store.Set(secretOf, credential.Credential{Scope: credential.Repository, URL: shop.URL(), Project: "red", BearerToken: secret.New("wrong")})
	if err := resolve("red"); !source.IsKind(err, source.Denied) {
		t.Errorf("a wrong token of the project: %v", err)
	}
	must(t, resolve("blue"))
	store.Set(secretOf, credential.Credential{Scope: credential.Repository, URL: shop.URL(), Project: "red", BearerToken: secret.New("own")})
	s.Forget(shop.URL())
	must(t, resolve("red"))
	store.Remove(types.NamespacedName{Namespace: "argocd", Name: "of-"})
	if err := resolve("blue"); !source.IsKind(err, source.Denied) {
		t.Errorf("without a Secret: %v", err)
	}
}

// An index of one tenant that names the digest of another tenant's private chart
// does not get it from the cache.
func TestArchivesAreNotShared(t *testing.T) {
	private, own := serveHelm(t), serveHelm(t)
	private.publish(t, "web", "1.0.0")
	private.user = "ada"
	c := credential.Credential{URL: private.URL, Kind: credential.Helm, Username: "ada", Password: secret.New(password)}
	s := open(t, with(c))
	_, err := s.Resolve(t.Context(), chartAt(private.URL, "web", "1.0.0"), 0)
	must(t, err)
	own.set("/index.yaml", fmt.Appendf(nil, "entries:\n  web:\n  - urls: [web.tgz]\n    version: 1.0.0\n    digest: %s\n", digestOf(chart(t, "web", "1.0.0"))))
	if got, err := s.Resolve(t.Context(), chartAt(own.URL, "web", "1.0.0"), 0); !source.IsKind(err, source.NotFound) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// limitedTo is a chart for a project with these sourceRepos.
func limitedTo(t *testing.T, url, chart string, rules ...string) project.Admitted {
	t.Helper()
	compiled, refused := project.Compile(&v1alpha1.AppProject{Spec: v1alpha1.AppProjectSpec{SourceRepos: rules}})
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	admitted, err := compiled.Admit(v1alpha1.ApplicationSource{RepoURL: url, Chart: chart, TargetRevision: "*"})
	must(t, err)
	return admitted
}

// An index cannot open with the credentials of a host what its project may not
// read there.
func TestArchivesOutsideOfTheRepository(t *testing.T) {
	server := serveHelm(t)
	server.user = "ada"
	server.set("/bank/web.tgz", chart(t, "web", "1.0.0"))
	server.set("/team/own/web.tgz", chart(t, "web", "1.0.0"))
	index := func(url string) {
		server.set("/team/own/index.yaml", []byte("entries:\n  web:\n  - urls: [\""+url+"\"]\n    version: 1.0.0\n    digest: "+digestOf(chart(t, "web", "1.0.0"))+"\n"))
	}
	store := &credential.Store{}
	store.Set(types.NamespacedName{Namespace: "argocd", Name: "host"}, credential.Credential{
		Scope: credential.Prefix, URL: server.URL, Kind: credential.Helm, Username: "ada", Password: secret.New(password),
	})
	s := open(t, func(o *source.Options) { o.Credentials = store })
	own := server.URL + "/team/own"
	resolve := func(url string, rules ...string) error {
		t.Helper()
		index(url)
		_, err := s.Resolve(t.Context(), limitedTo(t, own, "web", rules...), 0)
		return err
	}
	for _, url := range []string{"/bank/web.tgz", "../../bank/web.tgz", server.URL + "/bank/web.tgz", "/team/own/../../bank/web.tgz", "/team/own/%2e%2e/%2e%2e/bank/web.tgz", "../../bank/web.tgz?x=y"} {
		wantError(t, resolve(url, own), source.Invalid)
	}
	if asked := server.asked("/bank/"); asked > 0 {
		t.Errorf("%d requests for archives that the project does not allow", asked)
	}
	// What the project lists is read, and remains closed to others.
	must(t, resolve("/bank/web.tgz", own, server.URL+"/bank"))
	must(t, resolve("/bank/web.tgz", "*"))
	wantError(t, resolve("/bank/web.tgz", own), source.Invalid, "sourceRepos")
	wantError(t, resolve("/bank/web.tgz", "*", "!"+server.URL+"/bank"), source.Invalid, "sourceRepos")
	for _, url := range []string{"web.tgz", "/team/own/web.tgz", own + "/web.tgz"} {
		must(t, resolve(url, own))
	}
}

// A public server does not lead to internal addresses, neither by an index nor by
// a redirect. It is behind a proxy here, as there is no public server in a test.
func TestServersDoNotLeadInside(t *testing.T) {
	reached := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer inside.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/index.yaml" {
			_, _ = fmt.Fprintf(w, "entries:\n  web:\n  - urls: [%s/web.tgz]\n    version: 1.0.0\n  moved:\n  - urls: [moved.tgz]\n    version: 1.0.0\n", inside.URL)
			return
		}
		http.Redirect(w, r, inside.URL+r.URL.RequestURI(), http.StatusFound)
	}))
	defer proxy.Close()
	const helm, git = "http://charts.example", "http://git.example/team/app"
	store := &credential.Store{}
	for name, url := range map[string]string{"helm": helm, "git": git} {
		store.Set(types.NamespacedName{Namespace: "argocd", Name: name}, credential.Credential{
			Scope: credential.Repository, URL: url, Proxy: secret.New(proxy.URL), NoProxy: "127.0.0.1",
		})
	}
	s := open(t, func(o *source.Options) { o.Credentials = store })
	for _, chart := range []string{"web", "moved"} {
		_, err := s.Resolve(t.Context(), chartAt(helm, chart, "1.0.0"), 0)
		wantError(t, err, source.Refused, "internal address", "Chart "+chart)
		if !source.IsOfChart(err) {
			t.Errorf("it is an error of all charts: %v", err)
		}
	}
	_, err := s.Resolve(t.Context(), at(git, "main"), 0)
	wantError(t, err, source.Denied, "internal address")
	if reached {
		t.Error("the server inside was reached")
	}
}
