package appset_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// previews is a scene with a GitLab server and a set for its merge requests.
type previews struct {
	*scene
	host *providertest.Server
}

const previewPath = "acme/shop"

func newPreviews(t *testing.T, numbers ...int64) *previews {
	t.Helper()
	p := &previews{scene: newScene(t)}
	p.host = providertest.Start(t, gitprovider.GitLab, providertest.World{
		Tokens:       []providertest.Token{{Value: "canary-7f3a", Login: "robot", Scopes: []string{"api"}, Roles: map[string]string{"acme": "write"}}},
		Repositories: []providertest.Repository{{Path: previewPath, Private: true}},
	})
	p.change(func(pulls []providertest.Pull) []providertest.Pull {
		for _, number := range numbers {
			pulls = append(pulls, providertest.Pull{
				Number: number, Head: fmt.Sprintf("feature/%d", number), Base: "main", HeadSHA: strings.Repeat(fmt.Sprint(number%10), 40), State: gitprovider.PullRequestOpen, Author: "ann",
			})
		}
		return pulls
	})
	p.cluster.Apply(t, p.control, tokenSecret)
	authority := must.Get(json.Marshal(string(p.host.CA)))(t)
	p.cluster.Apply(t, p.control, `{apiVersion: v1, kind: ConfigMap, metadata: {name: ca}, data: {ca.crt: `+string(authority)+`}}`)
	p.cluster.Apply(t, p.control, `
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: set}
spec:
  goTemplate: true
  goTemplateOptions: [missingkey=error]
  generators:
    - pullRequest:
        gitlab: {project: `+previewPath+`, api: '`+p.host.URL+`', pullRequestState: opened, tokenRef: {secretName: token, key: key}, caRef: {configMapName: ca, key: ca.crt}}
  template:
    metadata:
      name: pr-{{.number}}
      annotations:
        slipway.dev/preview-url: https://pr-{{.number}}.preview.example.com
        slipway.dev/preview-pull-request: '{{.number}}'
    spec: {project: default, source: {repoURL: https://git/a, path: x, targetRevision: '{{.head_sha}}'}, destination: {server: 'https://kubernetes.default.svc', namespace: x}}
`)
	return p
}

// change changes the merge requests.
func (p *previews) change(how func([]providertest.Pull) []providertest.Pull) {
	p.host.ChangePulls(previewPath, how)
}

// event reports a change of a merge request, as a webhook does.
func (p *previews) event() {
	p.controller.Refresh(webhook.Push{PullRequest: true, RepositoryURLs: []string{p.host.URL + "/" + previewPath + ".git"}})
}

// ready gives an Application the status of one that serves a commit.
func (p *previews) ready(name, revision, health string) {
	p.t.Helper()
	app := must.Get(p.applications(p.control).Get(p.t.Context(), name, metav1.GetOptions{}))(p.t)
	source, _, _ := unstructured.NestedMap(app.Object, "spec", "source")
	destination, _, _ := unstructured.NestedMap(app.Object, "spec", "destination")
	status := must.Get(json.Marshal(map[string]any{"status": map[string]any{
		"sync":   map[string]any{"status": "Synced", "revision": revision, "comparedTo": map[string]any{"source": source, "destination": destination}},
		"health": map[string]any{"status": health},
	}}))(p.t)
	p.patch(p.applications(p.control), name, string(status))
}

// comments are those of a merge request.
func (p *previews) comments(number int64) (texts []string) {
	for _, pull := range p.host.Pulls(previewPath) {
		for _, comment := range pull.Comments {
			if pull.Number == number {
				texts = append(texts, comment.Text)
			}
		}
	}
	return texts
}

// awaitComment waits until a merge request has one comment, with part in it.
func (p *previews) awaitComment(number int64, part string) {
	p.t.Helper()
	programs.Eventually(p.t, func(context.Context) error {
		if got := p.comments(number); len(got) != 1 || !strings.Contains(got[0], part) {
			return fmt.Errorf("the comments of %d are %q, want one with %q", number, got, part)
		}
		return nil
	})
}

// TestPreviewLifeCycle: a merge request gets an Application and, once that is healthy,
// one comment with its address, which is changed by the next commit and not repeated
// after a restart. Both go with the merge request, also with the last one.
func TestPreviewLifeCycle(t *testing.T) {
	p := newPreviews(t, 1, 3)
	p.awaits(p.control, "pr-1,pr-3")
	p.ready("pr-1", strings.Repeat("a", 40), "Progressing")
	p.ready("pr-3", strings.Repeat("c", 40), "Healthy")
	p.awaitComment(3, "is at <https://pr-3.preview.example.com>. It serves the commit cccccccccccc.")
	if got := p.comments(1); len(got) > 0 {
		t.Errorf("a preview that is not ready has %q", got)
	}
	p.ready("pr-1", strings.Repeat("a", 40), "Healthy")
	p.awaitComment(1, "https://pr-1.preview.example.com")
	p.ready("pr-1", strings.Repeat("b", 40), "Healthy")
	p.awaitComment(1, "It serves the commit bbbbbbbbbbbb.")
	// After a restart the comments are read, and none is written.
	p.stop()
	writes, requests := len(p.host.Writes()), len(p.host.Requests())
	p.start()
	programs.Eventually(t, func(context.Context) error {
		read := strings.Join(p.host.Requests()[requests:], "\n")
		if !strings.Contains(read, "/merge_requests/1/notes") || !strings.Contains(read, "/merge_requests/3/notes") {
			return errors.New("the comments were not read")
		}
		return nil
	})
	if more := p.host.Writes()[writes:]; len(more) > 0 {
		t.Errorf("after the restart there was written %q", more)
	}
	// A merge request that is merged, and then the last one.
	p.change(func(pulls []providertest.Pull) []providertest.Pull {
		pulls[0].State = gitprovider.PullRequestMerged
		return pulls
	})
	p.event()
	p.awaits(p.control, "pr-3")
	p.awaitComment(1, "The preview of this pull request was removed.")
	p.change(func(pulls []providertest.Pull) []providertest.Pull {
		pulls[1].State = gitprovider.PullRequestClosed
		return pulls
	})
	p.event()
	p.awaits(p.control, "")
	p.awaitComment(3, "The preview of this pull request was removed.")
}

// closed closes merge requests.
func (p *previews) closed(numbers ...int64) {
	p.change(func(pulls []providertest.Pull) []providertest.Pull {
		for i := range pulls {
			if slices.Contains(numbers, pulls[i].Number) {
				pulls[i].State = gitprovider.PullRequestClosed
			}
		}
		return pulls
	})
}

const removedText = "The preview of this pull request was removed."

// TestPreviewRemovedWhileDown: merge requests that were closed while no controller ran
// lose their Applications, and their comment changes. One that never had a comment gets
// none.
func TestPreviewRemovedWhileDown(t *testing.T) {
	p := newPreviews(t, 1, 3)
	p.awaits(p.control, "pr-1,pr-3")
	p.ready("pr-1", strings.Repeat("a", 40), "Healthy")
	p.awaitComment(1, "is at <https://pr-1.preview.example.com>")
	p.stop()
	p.closed(1, 3)
	p.start()
	p.awaits(p.control, "")
	p.awaitComment(1, removedText)
	if got := p.comments(3); len(got) > 0 {
		t.Errorf("a preview that was never ready has %q", got)
	}
}

// TestPreviewKilledWhileRemoved: a controller that is killed when it deletes the
// Application, and does not get to anything after that, leaves no comment behind that
// leads to a preview.
func TestPreviewKilledWhileRemoved(t *testing.T) {
	p := newPreviews(t, 1)
	p.awaits(p.control, "pr-1")
	p.ready("pr-1", strings.Repeat("a", 40), "Healthy")
	p.awaitComment(1, "is at <https://pr-1.preview.example.com>")
	deleted := make(chan struct{})
	once := sync.OnceFunc(func() { close(deleted) })
	p.gate.Handle(func(request *http.Request, send kubetest.Send) (*http.Response, error) {
		if request.Method != http.MethodDelete {
			return send(request)
		}
		if response, err := send(request); err == nil {
			_ = response.Body.Close()
		}
		once()
		<-request.Context().Done() // the process gets no response before its end
		return nil, request.Context().Err()
	})
	p.closed(1)
	p.event()
	<-deleted
	p.stop()
	p.gate.Handle(nil)
	p.start()
	p.awaits(p.control, "")
	p.awaitComment(1, removedText)
}

// TestPreviewCommentRefused: a Git host that does not have the pull request of the
// annotation, and so refuses to list its comments, does not keep the preview.
func TestPreviewCommentRefused(t *testing.T) {
	p := newPreviews(t, 1)
	p.awaits(p.control, "pr-1")
	p.patch(p.sets(p.control), "set", `{"spec": {"template": {"metadata": {"annotations": {"slipway.dev/preview-pull-request": "99"}}}}}`)
	p.until(p.control, "pr-1", func(app *unstructured.Unstructured) error {
		if app.GetAnnotations()["slipway.dev/preview-pull-request"] != "99" {
			return errors.New("the annotation is not there")
		}
		return nil
	})
	p.closed(1)
	p.event()
	p.awaits(p.control, "")
}

// TestPreviewForks: merge requests of forks get nothing unless the set allows it, by a
// label or for all; and the oldest ones stay within the limit.
func TestPreviewForks(t *testing.T) {
	p := newPreviews(t, 1, 2, 3)
	p.change(func(pulls []providertest.Pull) []providertest.Pull {
		pulls[1].Fork, pulls[2].Fork = "mallory/shop", "mallory/shop"
		return pulls
	})
	p.event()
	p.awaits(p.control, "pr-1")
	p.told(p.control, "ParametersGenerated", "True", "2 pull requests of forks are left out")
	annotate := func(key, value string) {
		p.patch(p.sets(p.control), "set", `{"metadata": {"annotations": {"slipway.dev/preview-`+key+`": "`+value+`"}}}`)
	}
	annotate("forks", "label:safe to preview")
	p.change(func(pulls []providertest.Pull) []providertest.Pull {
		pulls[2].Labels = []string{"safe to preview"}
		return pulls
	})
	p.event()
	p.awaits(p.control, "pr-1,pr-3")
	annotate("forks", "all")
	p.awaits(p.control, "pr-1,pr-2,pr-3")
	annotate("limit", "2")
	p.awaits(p.control, "pr-1,pr-2")
	p.told(p.control, "ParametersGenerated", "True", "1 pull requests are beyond the limit of 2")
	annotate("forks", "some")
	p.told(p.control, "ErrorOccurred", "True", `"some" is neither none, all nor label:NAME`)
	p.awaits(p.control, "pr-1,pr-2")
}

// TestPreviewReportRefused: what cannot be reported is an Event of the set, and no
// address of the author of a pull request becomes Markdown.
func TestPreviewReportRefused(t *testing.T) {
	p := newPreviews(t, 1)
	p.awaits(p.control, "pr-1")
	p.patch(p.sets(p.control), "set", `{"spec": {"template": {"metadata": {"annotations": {"slipway.dev/preview-url": "https://example.com/)[x](javascript:1)"}}}}}`)
	p.until(p.control, "pr-1", func(app *unstructured.Unstructured) error {
		if !strings.Contains(app.GetAnnotations()["slipway.dev/preview-url"], "javascript") {
			return errors.New("the annotation is not there")
		}
		return nil
	})
	p.ready("pr-1", strings.Repeat("a", 40), "Healthy")
	events := p.cluster.Client.EventsV1().Events(p.control)
	programs.Eventually(t, func(ctx context.Context) error {
		list, err := events.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range list.Items {
			if event.Reason == "PreviewNotReported" && strings.Contains(event.Note, "is no address such as") {
				return nil
			}
		}
		return fmt.Errorf("there is no Event among %d", len(list.Items))
	})
	if got := p.comments(1); len(got) > 0 {
		t.Errorf("the comments are %q", got)
	}
}
