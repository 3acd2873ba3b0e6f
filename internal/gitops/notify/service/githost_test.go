package service_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/notify/service"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
)

// shopCommit is the commit that the messages are about.
const shopCommit = "abcdef0123abcdef0123abcdef0123abcdef0123"

// gitHost is a Git host behind a proxy that loses the response to one write, as a process
// does that is killed after its request.
type gitHost struct {
	*providertest.Server
	kind    gitprovider.Kind
	address string
	// lost counts writes down to the one whose response is lost.
	lost atomic.Int64
}

func newGitHost(t *testing.T, kind gitprovider.Kind) *gitHost {
	t.Helper()
	h := &gitHost{kind: kind}
	h.Server = providertest.Start(t, kind, providertest.World{
		Tokens: []providertest.Token{{Value: "ghs_1", Login: "robot", Scopes: []string{"api", "repo"}, Roles: map[string]string{"acme": "write"}}},
		// The marker of the message is in the reply of a person, too, and behind a page of others.
		Repositories: []providertest.Repository{{Path: "acme/shop", Private: true, Pulls: []providertest.Pull{{
			Number: 3, Head: "a", Base: "main", HeadSHA: shopCommit, State: gitprovider.PullRequestOpen,
			Comments: append(make([]providertest.PullComment, 130), providertest.PullComment{ID: 1, Text: "> <!-- argocd-notifications k1 -->\n\nThanks", Foreign: true}),
		}}}},
	})
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(h.CA)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}
	t.Cleanup(transport.CloseIdleConnections)
	target := must.Get(url.Parse(h.URL))(t)
	proxy := &httputil.ReverseProxy{
		Transport: transport, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(response *http.Response) error {
			isWrite := response.Request.Method != http.MethodGet && !strings.Contains(response.Request.URL.Path, "access_tokens")
			if isWrite && h.lost.Add(-1) == 0 {
				return errors.New("the response is lost")
			}
			return nil
		},
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	h.address = front.URL
	return h
}

// service is one of a new process.
func (h *gitHost) service(t *testing.T) service.Service {
	t.Helper()
	options := "token: ghs_1\nbaseURL: " + h.address
	if h.kind == gitprovider.GitHub {
		options = "appID: 1\ninstallationID: 2\nenterpriseBaseURL: " + h.address + "\nprivateKey: " + privateKey(t)
	}
	made, problems, err := service.New(string(h.kind), []byte(options), clients())
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	return made
}

// delivery is a message with a status, a deployment and a comment.
func delivery(state string) service.Message {
	section, _ := json.Marshal(map[string]any{ // texts can be encoded
		"repoURLPath": "http://127.0.0.1/acme/shop.git", "revisionPath": shopCommit, "status": map[string]string{"state": state, "label": "cd"},
		"deployment":         map[string]any{"state": state, "environment": "prod", "environmentURL": "https://shop.example.com"},
		"pullRequestComment": map[string]string{"content": "It is " + state + "."},
	})
	made := message("", string(section))
	made.At = time.Now()
	return made
}

// written is what a repository has: statuses of the commit, deployments, statuses of
// these, and comments that are ours.
func (h *gitHost) written() string {
	of, _ := h.Repository("acme/shop")
	states, comments := 0, 0
	for _, one := range of.Deployments {
		states += len(one.Statuses)
	}
	for _, one := range of.Pulls[0].Comments {
		if strings.HasSuffix(one.Text, "\n<!-- argocd-notifications k1 -->") {
			comments++
		}
	}
	return fmt.Sprintf("%d statuses, %d deployments with %d states, %d comments", len(of.Statuses), len(of.Deployments), states, comments)
}

// TestKilledAfterWrite: a message that is sent again, because the process was killed
// after any of its writes, writes what is missing, and nothing twice.
func TestKilledAfterWrite(t *testing.T) {
	for kind, writes := range map[gitprovider.Kind]int64{gitprovider.GitHub: 4, gitprovider.GitLab: 3} {
		for lost := int64(1); lost <= writes; lost++ {
			h := newGitHost(t, kind)
			h.lost.Store(lost)
			sent := delivery("success")
			if err := h.service(t).Send(t.Context(), sent); err == nil {
				t.Errorf("%s: the message has fewer than %d writes", kind, lost)
			}
			must.Do(t, h.service(t).Send(t.Context(), sent))
			const want = "1 statuses, 1 deployments with 1 states, 1 comments"
			if got := h.written(); got != want {
				t.Errorf("%s: after the response to write %d was lost there are %s, and not %s", kind, lost, got, want)
			}
			before := len(h.Writes())
			must.Do(t, h.service(t).Send(t.Context(), sent))
			for _, more := range h.Writes()[before:] {
				if !strings.HasSuffix(more, "/access_tokens") {
					t.Errorf("%s: what is there is written again: %s", kind, more)
				}
			}
		}
	}
}

// TestDeployedBeside: a deployment of another commit to the same environment, between the
// kill and the next process, does not hide the one that there is.
func TestDeployedBeside(t *testing.T) {
	h := newGitHost(t, gitprovider.GitLab)
	sent, beside := delivery("success"), delivery("success")
	beside.Section = []byte(strings.ReplaceAll(string(beside.Section), shopCommit, strings.Repeat("b", 40)))
	for _, one := range []service.Message{sent, beside, sent} {
		must.Do(t, h.service(t).Send(t.Context(), one))
	}
	if got, want := h.written(), "2 statuses, 2 deployments with 2 states, 1 comments"; got != want {
		t.Errorf("there are %s, and not %s", got, want)
	}
}

// TestNextState: another state of the same commit is written, and a state that comes
// back after another one, too.
func TestNextState(t *testing.T) {
	for _, kind := range []gitprovider.Kind{gitprovider.GitHub, gitprovider.GitLab} {
		h := newGitHost(t, kind)
		of := h.service(t)
		for _, state := range []string{"success", "failed", "success"} {
			must.Do(t, of.Send(t.Context(), delivery(state)))
		}
		want := "3 statuses, 1 deployments with 3 states, 1 comments"
		if kind == gitprovider.GitLab {
			want = "3 statuses, 3 deployments with 3 states, 1 comments"
		}
		if got := h.written(); got != want {
			t.Errorf("%s: there are %s, and not %s", kind, got, want)
		}
	}
}
