package up

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/gitserver"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/secret"
)

// A machine without git has all the rest, and a message names what to install.
func TestWithoutGit(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	s := &scene{}
	must.Get(startGit(t.Context(), s))(t)
	defer s.close()
	note, err := gitReady(t.Context(), s, nil)
	if err != nil || !strings.Contains(note, "install the package git") {
		t.Errorf("it says %q: %v", note, err)
	}
	if row, hints := showGit(s); !strings.Contains(row.Detail, "install the package git") || row.Address != "" || hints != nil {
		t.Errorf("the row is %+v, %v", row, hints)
	}
	if _, err := startDemo(t.Context(), s); err != nil {
		t.Error(err)
	}
	if note, err := demoReady(t.Context(), s, nil); err != nil || !strings.Contains(note, "left out") {
		t.Errorf("the demo is %q: %v", note, err)
	}
	if note, err := runtimeReady(t.Context(), s, nil); err != nil || !strings.Contains(note, "comes from Git") {
		t.Errorf("the runtime is %q: %v", note, err)
	}
	if row, hints := showRuntime(s); row.Address != "" || hints != nil {
		t.Errorf("the row of the runtime is %+v, %v", row, hints)
	}
}

func TestSampleFiles(t *testing.T) {
	files := must.Get(sampleFiles("sample", sampleAddress))(t)
	for _, name := range []string{"README.md", "deploy/kustomization.yaml", "deploy/deployment.yaml", "deploy/service.yaml", "deploy/ingress.yaml"} {
		if len(files[name]) == 0 {
			t.Errorf("%s is missing", name)
		}
	}
	if version := "newTag: v1\n"; strings.Count(string(files["deploy/kustomization.yaml"]), "newTag: v1\n") != 1 {
		t.Errorf("%q is not there once", version)
	}
}

// The addresses in the repositories are those of the Git server, and no other
// port is left.
func TestSampleAddresses(t *testing.T) {
	for folder, count := range map[string]int{"sample": 0, "shared": 2, "apps": 1} {
		all := ""
		for _, content := range must.Get(sampleFiles(folder, "http://127.0.0.1:9999"))(t) {
			all += string(content)
		}
		if strings.Contains(all, ":8085") || strings.Count(all, "repoURL: http://127.0.0.1:9999/") != count {
			t.Errorf("the addresses of %s:\n%s", folder, all)
		}
	}
}

// A push is announced in a form that the agent takes, and again when it was not
// there.
func TestAnnouncer(t *testing.T) {
	const repository = "http://127.0.0.1:8085/demo.git"
	heard := make(chan webhook.Push, 8)
	hooks := &webhook.Handler{
		Secrets: func(webhook.Provider) []string { return []string{"signed with this"} },
		Notify:  func(push webhook.Push) { heard <- push },
	}
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		hooks.ServeHTTP(w, r)
	}))
	defer server.Close()
	a := newAnnouncer(server.URL, io.Discard)
	defer a.close()
	a.sign(secret.New("signed with this"))
	first, second := strings.Repeat("a", 40), strings.Repeat("b", 40)
	a.announce(repository, []gitserver.Change{
		{Ref: "refs/heads/main", Before: first, After: second}, {Ref: "refs/heads/new", After: second}, {Ref: "refs/heads/old", Before: first},
	})
	for _, want := range []webhook.Push{
		{Ref: "refs/heads/main", Before: first, After: second}, {Ref: "refs/heads/new", After: second}, {Ref: "refs/heads/old", Before: first},
	} {
		got := programs.Receive(t, heard, want.Ref)
		if got.Ref != want.Ref || got.Before != want.Before || got.After != want.After || !got.From(repository) {
			t.Errorf("heard %+v, want %+v", got, want)
		}
	}
}

func TestBoundedLog(t *testing.T) {
	log := must.Get(openBoundedLog(t.TempDir() + "/git.log"))(t)
	defer log.close()
	line := []byte(strings.Repeat("x", maxGitLog/2) + "\n")
	for range 3 {
		if n, err := log.Write(line); n != len(line) || err != nil {
			t.Fatalf("wrote %d: %v", n, err)
		}
	}
	if info, err := log.file.Stat(); err != nil || info.Size() != int64(len(line)) {
		t.Errorf("the log has %d bytes: %v", info.Size(), err)
	}
}
