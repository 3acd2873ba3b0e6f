package gitserver_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/gitserver"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// served is a repository that is served to a test.
type served struct {
	address, url, dir string
	second            string // another address of the same server
	pushed            chan []gitserver.Change
}

// password is that of the repository that needs one.
const password = "correct horse"

func serve(t *testing.T) *served {
	t.Helper()
	git := must.Get(gitserver.Find(t.Context()))(t)
	s := &served{dir: filepath.Join(t.TempDir(), "with a space", "demo.git"), pushed: make(chan []gitserver.Change, 8)}
	must.Do(t, git.Create(t.Context(), s.dir, map[string][]byte{"README.md": []byte("hello\n"), "deploy/a.yaml": []byte("a: 1")}))
	listener := programs.Listen(t, "")
	var log bytes.Buffer
	second := programs.Listen(t, "")
	must.Do(t, git.Create(t.Context(), filepath.Join(filepath.Dir(s.dir), "closed.git"), map[string][]byte{"a": []byte("1")}))
	server := git.Serve(gitserver.Options{
		Dir: filepath.Dir(s.dir), Repositories: map[string]string{"demo.git": "", "closed.git": password},
		Pushed: func(repository string, changes []gitserver.Change) {
			if repository != "demo.git" {
				t.Errorf("a push to %s", repository)
			}
			s.pushed <- changes
		},
		Log: &log,
	}, listener, second)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			programs.ShowLog(t, "the server", log.String())
		}
	})
	s.address, s.second = listener.Addr().String(), second.Addr().String()
	s.url = "http://" + s.address + "/demo.git"
	return s
}

// git runs git as a user does, in a folder.
func git(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@localhost", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@localhost")
	output, err := command.CombinedOutput()
	return strings.TrimSpace(string(output)), err
}

func mustGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	output, err := git(t, dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// clone clones the repository and returns the folder.
func (s *served) clone(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "demo")
	mustGit(t, "", "clone", "--quiet", s.url, dir)
	return dir
}

func (s *served) told(t *testing.T) []gitserver.Change {
	t.Helper()
	select {
	case changes := <-s.pushed:
		return changes
	case <-time.After(patience):
		t.Fatal("nobody was told of the push")
		return nil
	}
}

func write(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	must.Do(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
}

func TestCloneAndPush(t *testing.T) {
	s := serve(t)
	dir := s.clone(t)
	if content, err := os.ReadFile(filepath.Join(dir, "deploy", "a.yaml")); err != nil || string(content) != "a: 1" {
		t.Fatalf("the clone has %q: %v", content, err)
	}
	before := mustGit(t, dir, "rev-parse", "HEAD")
	write(t, dir, "README.md", []byte("changed\n"))
	mustGit(t, dir, "commit", "--quiet", "-a", "-m", "change")
	mustGit(t, dir, "push", "--quiet")
	after := mustGit(t, dir, "rev-parse", "HEAD")
	want := gitserver.Change{Ref: "refs/heads/main", Before: before, After: after}
	if got := s.told(t); len(got) != 1 || got[0] != want {
		t.Errorf("told %+v, want %+v", got, want)
	}
	if got := mustGit(t, s.clone(t), "rev-parse", "HEAD"); got != after {
		t.Errorf("a new clone is at %s, want %s", got, after)
	}
	mustGit(t, dir, "push", "--quiet", "origin", "HEAD:refs/heads/other")
	if got := s.told(t); len(got) != 1 || got[0] != (gitserver.Change{Ref: "refs/heads/other", After: after}) {
		t.Errorf("told %+v of a new branch", got)
	}
	mustGit(t, dir, "push", "--quiet", "origin", ":refs/heads/other")
	if got := s.told(t); len(got) != 1 || got[0] != (gitserver.Change{Ref: "refs/heads/other", Before: after}) {
		t.Errorf("told %+v of a deleted branch", got)
	}
}

// A repository with a password is for those who have it, whatever their name,
// and the server is the same at each of its addresses.
func TestPassword(t *testing.T) {
	s := serve(t)
	for _, address := range []string{s.address, s.second} {
		for userinfo, allowed := range map[string]bool{
			"": false, "slipway:wrong@": false, "slipway:@": false, "slipway:correct%20horse@": true, "other:correct%20horse@": true,
		} {
			output, err := git(t, "", "clone", "--quiet", "http://"+userinfo+address+"/closed.git", filepath.Join(t.TempDir(), "closed"))
			if allowed != (err == nil) {
				t.Errorf("clone as %q: %v\n%s", userinfo, err, output)
			}
		}
		mustGit(t, "", "clone", "--quiet", "http://"+address+"/demo.git", filepath.Join(t.TempDir(), "open"))
	}
	dir := s.clone(t)
	mustGit(t, dir, "remote", "set-url", "origin", "http://slipway:wrong@"+s.address+"/closed.git")
	if output, err := git(t, dir, "push", "--force"); err == nil {
		t.Errorf("pushed without the password: %s", output)
	}
}

// Files of the program are brought up to date by a commit, others stay, and
// nothing is committed without a change.
func TestUpdate(t *testing.T) {
	found := must.Get(gitserver.Find(t.Context()))(t)
	dir := filepath.Join(t.TempDir(), "config.git")
	must.Do(t, found.Create(t.Context(), dir, map[string][]byte{"mine": []byte("1"), "a/ours": []byte("old")}))
	for _, step := range []struct{ content, commits string }{{"old", "1"}, {"new", "2"}, {"new", "2"}} {
		must.Do(t, found.Update(t.Context(), dir, "new version", map[string][]byte{"a/ours": []byte(step.content)}))
		if got := mustGit(t, dir, "rev-list", "--count", "main"); got != step.commits {
			t.Errorf("%s commits, want %s", got, step.commits)
		}
		if got := mustGit(t, dir, "show", "main:a/ours"); got != step.content {
			t.Errorf("the file is %q", got)
		}
		if got := mustGit(t, dir, "show", "main:mine"); got != "1" {
			t.Errorf("the other file is %q", got)
		}
	}
	mustGit(t, dir, "update-ref", "-d", "refs/heads/main")
	must.Do(t, found.Update(t.Context(), dir, "new version", map[string][]byte{"a/ours": []byte("newer")}))
	if got := mustGit(t, dir, "for-each-ref"); got != "" {
		t.Errorf("a branch that was removed is back: %s", got)
	}
}

// Git sends what is larger than a megabyte in chunks, which CGI does not know.
func TestLargePush(t *testing.T) {
	s := serve(t)
	dir := s.clone(t)
	noise := make([]byte, 3<<20)
	state := uint32(1)
	for i := range noise { // what does not compress
		state = state*1664525 + 1013904223
		noise[i] = byte(state >> 24)
	}
	write(t, dir, "large", noise)
	mustGit(t, dir, "add", ".")
	mustGit(t, dir, "commit", "--quiet", "-m", "large")
	mustGit(t, dir, "push", "--quiet")
	if got := s.told(t); len(got) != 1 {
		t.Errorf("told %+v", got)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(s.dir), "push-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// A push that Git rejects changes nothing and is not reported.
func TestRefusedPush(t *testing.T) {
	s := serve(t)
	first, second := s.clone(t), s.clone(t)
	for _, dir := range []string{first, second} {
		write(t, dir, "README.md", []byte(dir))
		mustGit(t, dir, "commit", "--quiet", "-a", "-m", dir)
	}
	mustGit(t, first, "push", "--quiet")
	s.told(t)
	if output, err := git(t, second, "push"); err == nil || !strings.Contains(output, "rejected") {
		t.Errorf("a push that is behind: %v\n%s", err, output)
	}
	mustGit(t, second, "push", "--quiet", "--force")
	if got := s.told(t); len(got) != 1 || got[0].After != mustGit(t, second, "rev-parse", "HEAD") {
		t.Errorf("told %+v", got)
	}
}

// A program in the repository's folder is never run.
func TestNoHooks(t *testing.T) {
	s := serve(t)
	hooks := filepath.Join(s.dir, "hooks")
	must.Do(t, os.MkdirAll(hooks, 0o700))
	proof := filepath.Join(t.TempDir(), "ran")
	must.Do(t, os.WriteFile(filepath.Join(hooks, "post-receive"), []byte("#!/bin/sh\n: > '"+proof+"'\n"), 0o700))
	dir := s.clone(t)
	mustGit(t, dir, "commit", "--quiet", "--allow-empty", "-m", "empty")
	mustGit(t, dir, "push", "--quiet")
	s.told(t)
	if _, err := os.Stat(proof); err == nil {
		t.Error("the hook ran")
	}
}

func TestRefusals(t *testing.T) {
	s := serve(t)
	const refs = "/demo.git/info/refs?service=git-upload-pack"
	for _, test := range []struct {
		name, method, path, host, header string
		want                             int
	}{
		{"fetch", "GET", refs, "", "", 200},
		{"by name", "GET", refs, "localhost:8085", "", 200},
		{"another repository", "GET", "/other.git/info/refs?service=git-upload-pack", "", "", 404},
		{"another spelling", "GET", "/%64emo.git/info/refs?service=git-upload-pack", "", "", 404},
		{"outside", "GET", "/demo.git/../demo.git/info/refs?service=git-upload-pack", "", "", 404},
		{"another service", "GET", "/demo.git/info/refs?service=git-upload-archive", "", "", 404},
		{"two services", "GET", refs + "&service=git-receive-pack", "", "", 404},
		{"the old protocol", "GET", "/demo.git/info/refs", "", "", 404},
		{"a file", "GET", "/demo.git/HEAD", "", "", 404},
		{"an object", "GET", "/demo.git/objects/info/packs", "", "", 404},
		{"the root", "GET", "/", "", "", 404},
		{"a method", "PUT", "/demo.git/git-receive-pack", "", "", 404},
		{"a name of others", "GET", refs, "evil.example:8085", "", 403},
		{"an address of others", "GET", refs, "192.0.2.1", "", 403},
		{"a web page", "POST", "/demo.git/git-receive-pack", "", "http://evil.example", 403},
		{"not git", "POST", "/demo.git/git-receive-pack", "", "", 415},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := must.Get(http.NewRequestWithContext(t.Context(), test.method, "http://"+s.address+test.path, http.NoBody))(t)
			if test.host != "" {
				request.Host = test.host
			}
			if test.header != "" {
				request.Header.Set("Origin", test.header)
			}
			response := must.Get((&http.Transport{DisableKeepAlives: true}).RoundTrip(request))(t)
			defer response.Body.Close()
			text, _ := io.ReadAll(response.Body)
			if response.StatusCode != test.want {
				t.Errorf("status %d, want %d: %s", response.StatusCode, test.want, text)
			}
		})
	}
}

// An existing repository stays, and a partial one is created again.
func TestCreate(t *testing.T) {
	found := must.Get(gitserver.Find(t.Context()))(t)
	dir := filepath.Join(t.TempDir(), "demo.git")
	must.Do(t, os.MkdirAll(filepath.Join(dir+".new", "objects"), 0o700))
	for _, content := range []string{"first", "second"} {
		must.Do(t, found.Create(t.Context(), dir, map[string][]byte{"a": []byte(content)}))
		if got := mustGit(t, dir, "show", "main:a"); got != "first" {
			t.Errorf("the file is %q", got)
		}
	}
}

func TestFindWithoutGit(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := gitserver.Find(t.Context()); err == nil || !strings.Contains(err.Error(), "install the package git") {
		t.Errorf("the error is %v", err)
	}
}
