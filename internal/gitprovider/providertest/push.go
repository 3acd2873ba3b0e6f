package providertest

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Push is a push to the branch main of a repository.
type Push struct {
	// Event is the event in the place of push, such as pull_request, about the same
	// repository.
	Event string
	// Path is the repository below the host, and CloneURL its address.
	Path, CloneURL string
	Before, After  string
	// Files are the modified ones.
	Files []string
}

// GitHubBody returns the push event as GitHub sends it.
func (p Push) GitHubBody(t testing.TB) []byte {
	t.Helper()
	clone, err := url.Parse(p.CloneURL)
	if err != nil {
		t.Fatal(err)
	}
	commits := []any{}
	if len(p.Files) > 0 {
		commits = append(commits, map[string]any{"id": p.After, "added": []string{}, "removed": []string{}, "modified": p.Files})
	}
	text, err := json.Marshal(map[string]any{
		"ref": "refs/heads/main", "before": p.Before, "after": p.After, "forced": false, "created": false, "deleted": false, "commits": commits,
		"repository": map[string]any{
			"full_name": p.Path, "clone_url": p.CloneURL, "html_url": strings.TrimSuffix(p.CloneURL, ".git"), "default_branch": "main",
			"ssh_url": fmt.Sprintf("git@%s:%s.git", clone.Host, p.Path),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// SendGitHub sends the push event to a webhook with the signature of its secret,
// and returns the status of the response.
func (p Push) SendGitHub(t testing.TB, through http.RoundTripper, hook Hook) int {
	t.Helper()
	body := p.GitHubBody(t)
	sum := hmac.New(sha256.New, []byte(hook.Secret))
	sum.Write(body)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hook.URL, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-GitHub-Event", cmp.Or(p.Event, "push"))
	request.Header.Set("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
	request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum.Sum(nil)))
	response, err := through.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}
