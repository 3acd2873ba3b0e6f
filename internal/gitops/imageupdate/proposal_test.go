package imageupdate_test

import (
	"context"
	"fmt"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/secret"
)

// host is a Git host with pull requests, and one repository of it.
type host struct {
	*providertest.Server
	repository *gittest.Repository
	path       string
}

// serveHost serves a repository with a token that the credentials have.
func (w *world) serveHost(t *testing.T, path string, files map[string]string) *host {
	t.Helper()
	h := &host{repository: w.git.Repository(t, path, files), path: path}
	h.Server = providertest.Start(t, gitprovider.GitHub, providertest.World{
		Tokens:       []providertest.Token{{Value: "canary", Login: "robot", Scopes: []string{"repo"}, Roles: map[string]string{"team": "write"}}},
		Repositories: []providertest.Repository{{Path: path, Private: true, DefaultBranch: "main"}},
	})
	h.Git = httputil.NewSingleHostReverseProxy(must.Get(url.Parse(strings.TrimSuffix(h.repository.URL(), "/"+path+".git")))(t))
	w.credentials.Set(types.NamespacedName{Name: path}, credential.Credential{Scope: credential.Repository, Kind: credential.Git, URL: h.address(), Username: "x", Password: secret.New("canary")})
	w.credentials.SetCertificateAuthorities(map[string]string{strings.TrimPrefix(h.URL, "https://"): string(h.CA)})
	return h
}

// address is that of the repository.
func (h *host) address() string { return h.URL + "/" + h.path + ".git" }

// awaitPulls waits until there is a number of pull requests, and returns the last.
func (h *host) awaitPulls(t *testing.T, count int) (last providertest.Pull) {
	t.Helper()
	programs.Eventually(t, func(context.Context) error {
		all := h.Pulls(h.path)
		if len(all) != count {
			return fmt.Errorf("there are %d pull requests: %+v", len(all), all)
		}
		last = all[count-1]
		return nil
	})
	return last
}

// TestPullRequests: an ImageUpdater as documented upstream opens a pull request for a
// change, once over restarts. One that was closed is not opened again, and the next tag
// gets its own.
func TestPullRequests(t *testing.T) {
	w := newWorld(t)
	w.DefineFiles(t, "testdata/imageupdater.yaml")
	w.push(t, "team/web", "1.0.1", day(1))
	at := w.serveHost(t, "team/shop", map[string]string{"app/values.yaml": "image: {tag: 1.0.0}\n"})
	w.apply(t, application{name: "shop", path: "app", kind: "Helm", repoURL: at.address(), images: []string{"REG/team/web:1.0.0"}, revision: "HEAD"})
	w.updater(t, "shop", `
  writeBackConfig:
    method: git
    gitConfig: {writeBackTarget: "helmvalues:values.yaml", pullRequest: {github: {}}}
  applicationRefs: [{namePattern: shop, images: [{alias: web, imageName: "REG/team/web:1.x"}]}]
`)
	_, stop := w.start(t, quick)
	first := at.awaitPulls(t, 1)
	if !strings.HasPrefix(first.Head, "image-updater-") || first.Base != "main" || first.Title != "build: automatic update of shop" || !strings.Contains(first.Body, "tag '1.0.0' to '1.0.1'") {
		t.Errorf("the pull request is %+v", first)
	}
	w.awaitFile(t, at.repository, first.Head, "app/values.yaml", "image: {tag: 1.0.1}\n")
	w.awaitEvent(t, "shop", "ImagesProposed", at.URL+"/team/shop/pull/1")
	stop()
	if got := commits(t, at.repository, gittest.Main); got != "1" {
		t.Errorf("the base branch has %s commits", got)
	}
	// After a restart the pull request is found. The next tag shows that the controller
	// has looked at it before.
	at.ChangePulls(at.path, func(all []providertest.Pull) []providertest.Pull {
		all[0].State = gitprovider.PullRequestClosed
		return all
	})
	requests := len(at.Requests())
	w.start(t, quick)
	programs.Eventually(t, func(context.Context) error {
		if len(at.Requests()) == requests {
			return fmt.Errorf("the pull requests were not read")
		}
		return nil
	})
	w.push(t, "team/web", "1.0.2", day(2))
	second := at.awaitPulls(t, 2)
	w.awaitFile(t, at.repository, second.Head, "app/values.yaml", "image: {tag: 1.0.2}\n")
	if got := commits(t, at.repository, second.Head); got != "2" {
		t.Errorf("the branch has %s commits", got)
	}
}

// TestPullRequestAnnotation: without an ImageUpdater an annotation names the Git host.
func TestPullRequestAnnotation(t *testing.T) {
	w := newWorld(t)
	w.push(t, "team/web", "1.0.1", day(1))
	at := w.serveHost(t, "team/shop", map[string]string{"kustomization.yaml": "images: [{name: " + w.registry + "/team/web, newTag: 1.0.0}]\n"})
	one := application{
		name: "shop", path: ".", kind: "Kustomize", repoURL: at.address(), images: []string{"REG/team/web:1.0.0"},
		annotations: map[string]string{"image-list": "REG/team/web:1.x", "write-back-target": "kustomization"}, own: map[string]string{"slipway.dev/image-pull-requests": "svn"},
	}
	w.apply(t, one)
	w.start(t, quick)
	w.awaitEvent(t, "shop", "ImageUpdateRefused", `slipway.dev/image-pull-requests]: "svn" is no Git host`)
	one.own["slipway.dev/image-pull-requests"] = "github"
	w.apply(t, one)
	at.awaitPulls(t, 1)
	if got := commits(t, at.repository, gittest.Main); got != "1" {
		t.Errorf("the base branch has %s commits", got)
	}
}
