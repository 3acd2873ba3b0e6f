package webhook_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/gitops/webhook"
)

// request is one of testdata/requests.
type request struct {
	header http.Header
	body   []byte
	want   string
}

func requests(t testing.TB) map[string]request {
	t.Helper()
	found := map[string]request{}
	for name, archive := range archives.All(t, "testdata/requests/*.txtar") {
		if len(archive.Files) != 3 {
			t.Fatalf("%s has %d files", name, len(archive.Files))
		}
		text := append(archive.Files[0].Data, '\n')
		header, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(text))).ReadMIMEHeader()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found[name] = request{
			header: http.Header(header), body: bytes.TrimSpace(archive.Files[1].Data), want: string(archive.Files[2].Data),
		}
	}
	return found
}

// show is an event as the archives have it.
func show(event webhook.Event, err error) string {
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s %q\n", event.Provider, event.Name)
	if event.Ping {
		text.WriteString("ping\n")
	}
	if event.Ignored != "" {
		fmt.Fprintf(&text, "ignored: %s\n", event.Ignored)
	}
	for _, push := range event.Pushes {
		fmt.Fprintf(&text, "repository %s\n", push.Repository)
		for _, address := range push.RepositoryURLs {
			fmt.Fprintf(&text, "  %s\n", address)
		}
		if push.PullRequest {
			text.WriteString("pull request\n")
			continue
		}
		fmt.Fprintf(&text, "%s %s..%s\n", push.Ref, push.Before, push.After)
	}
	return text.String()
}

// TestParse reads requests in the forms that the hosts document.
func TestParse(t *testing.T) {
	for name, sent := range requests(t) {
		t.Run(name, func(t *testing.T) {
			event, err := webhook.Parse(&http.Request{Header: sent.header}, sent.body)
			if got := show(event, err); got != sent.want {
				t.Errorf("got\n%s\nwant\n%s", got, sent.want)
			}
		})
	}
}

// TestParseMalformed: bodies that are no push are errors and not panics.
func TestParseMalformed(t *testing.T) {
	const repository = `"repository": {"full_name": "a/b"}, `
	for _, test := range []struct{ header, value, body string }{
		{"X-GitHub-Event", "push", ``},
		{"X-GitHub-Event", "push", `null`},
		{"X-GitHub-Event", "push", `[]`},
		{"X-GitHub-Event", "push", `{}`},
		{"X-GitHub-Event", "push", `{"ref": "refs/heads/main"}`},
		{"X-GitHub-Event", "push", `{` + repository + `"ref": "main"}`},
		{"X-GitHub-Event", "push", `{` + repository + `"ref": "refs/heads/main", "after": "; rm -rf"}`},
		{"X-GitHub-Event", "push", strings.Repeat("[", 100000)},
		{"X-Gitlab-Event", "Push Hook", `{"object_kind": "push"}`},
		{"X-Gitlab-Event", "Push Hook", `{"ref": 1}`},
		{"X-Event-Key", "repo:refs_changed", `{"changes": [{}]}`},
		{"X-Event-Key", "repo:refs_changed", `{"changes": {}}`},
		{"X-Gitea-Event", "push", `{"ref": 1}`},
		{"X-GitHub-Event", "pull_request", `{"action": "opened"}`},
		{"X-Gitlab-Event", "Merge Request Hook", `{"object_kind": "merge_request"}`},
		{"X-Event-Key", "pr:opened", `{"pullRequest": {}}`},
	} {
		event, err := webhook.Parse(&http.Request{Header: http.Header{http.CanonicalHeaderKey(test.header): {test.value}}}, []byte(test.body))
		if err == nil {
			t.Errorf("%s %.80s: %+v", test.value, test.body, event)
		}
	}
}

// FuzzParse: no body makes a parser panic, and what is accepted is sound.
func FuzzParse(f *testing.F) {
	for _, sent := range requests(f) {
		for name, values := range sent.header {
			if strings.HasSuffix(name, "-Event") || name == "X-Event-Key" {
				f.Add(name, values[0], sent.header.Get("Content-Type"), sent.body)
			}
		}
	}
	f.Fuzz(func(t *testing.T, name, value, kind string, body []byte) {
		header := http.Header{http.CanonicalHeaderKey(name): {value}, "Content-Type": {kind}}
		event, err := webhook.Parse(&http.Request{Header: header}, body)
		if err != nil {
			return
		}
		if event.Ping == (len(event.Pushes) > 0) && event.Ignored == "" {
			t.Errorf("%+v is neither a ping, nor a push, nor ignored", event)
		}
		for _, push := range event.Pushes {
			if strings.HasPrefix(push.Ref, "refs/") == push.PullRequest {
				t.Errorf("%+v", push)
			}
			for _, address := range push.RepositoryURLs {
				if !push.From(address) || !webhook.SameRepository(address, address) {
					t.Errorf("%+v is not from %q", push, address)
				}
			}
		}
	})
}
