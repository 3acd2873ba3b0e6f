package gittest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/must"
)

// clone runs a real client and gives its output; the folder is where the files
// are.
func clone(t *testing.T, url string, environment ...string) (folder, output string, err error) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "clone")
	cmd := exec.Command("git", "clone", "--quiet", url, folder)
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_GLOBAL=/dev/null")
	cmd.Env = append(cmd.Env, environment...)
	out, err := cmd.CombinedOutput()
	return folder, string(out), err
}

func read(t *testing.T, path string) string {
	t.Helper()
	content := must.Get(os.ReadFile(path))(t)
	return string(content)
}

func TestServeHTTP(t *testing.T) {
	server := gittest.Serve(t)
	repository := server.Repository(t, "demo", map[string]string{"a/b.txt": "one", "gone.txt": "x"})
	second := repository.Commit(t, map[string]string{"a/b.txt": "two", "gone.txt": gittest.Gone}, "second")
	folder, out, err := clone(t, repository.URL())
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := read(t, filepath.Join(folder, "a/b.txt")); got != "two" {
		t.Errorf("a/b.txt is %q", got)
	}
	if _, err := os.Stat(filepath.Join(folder, "gone.txt")); !os.IsNotExist(err) {
		t.Errorf("the deleted file: %v", err)
	}
	if head := repository.Head(t); head != second || len(head) != 40 {
		t.Errorf("head is %q, want %q", head, second)
	}
	requests := strings.Join(server.Requests(), "\n")
	if !strings.Contains(requests, "GET /demo.git/info/refs?service=git-upload-pack") {
		t.Errorf("requests are\n%s", requests)
	}
}

func TestBasicAuth(t *testing.T) {
	repository := gittest.Serve(t, gittest.BasicAuth("ada", "secret")).Repository(t, "demo", map[string]string{"a": "1"})
	if _, out, err := clone(t, repository.URL()); err == nil {
		t.Errorf("cloned without a password\n%s", out)
	}
	withPassword := strings.Replace(repository.URL(), "http://", "http://ada:secret@", 1)
	if _, out, err := clone(t, withPassword); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestTLS(t *testing.T) {
	server := gittest.Serve(t, gittest.TLS())
	repository := server.Repository(t, "demo", map[string]string{"a": "1"})
	if _, out, err := clone(t, repository.URL()); err == nil {
		t.Errorf("cloned from an unknown authority\n%s", out)
	}
	authority := filepath.Join(t.TempDir(), "ca.pem")
	must.Do(t, os.WriteFile(authority, []byte(server.CertificateAuthority()), 0o600))
	if _, out, err := clone(t, repository.URL(), "GIT_SSL_CAINFO="+authority); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSwitches(t *testing.T) {
	server := gittest.Serve(t)
	repository := server.Repository(t, "demo", map[string]string{"a": "1"})
	server.SetDown(true)
	if _, out, err := clone(t, repository.URL()); err == nil {
		t.Errorf("cloned from a server that is down\n%s", out)
	}
	server.SetDown(false)
	server.SetDelay(50 * time.Millisecond)
	began := time.Now()
	if _, out, err := clone(t, repository.URL()); err != nil || time.Since(began) < 100*time.Millisecond {
		t.Errorf("after %s: %v\n%s", time.Since(began), err, out)
	}
}

func TestServeSSH(t *testing.T) {
	server := gittest.ServeSSH(t)
	repository := server.Repository(t, "demo", map[string]string{"a": "1"})
	folder := t.TempDir()
	for name, content := range map[string]string{"key": server.PrivateKey(), "hosts": server.KnownHosts(), "none": ""} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	with := func(hosts string) string {
		return "GIT_SSH_COMMAND=ssh -F none -i " + filepath.Join(folder, "key") + " -o IdentitiesOnly=yes -o BatchMode=yes" +
			" -o StrictHostKeyChecking=yes -o GlobalKnownHostsFile=none -o UserKnownHostsFile=" + filepath.Join(folder, hosts)
	}
	if cloned, out, err := clone(t, repository.URL(), with("hosts")); err != nil || read(t, filepath.Join(cloned, "a")) != "1" {
		t.Errorf("%v\n%s", err, out)
	}
	if _, out, err := clone(t, repository.URL(), with("none")); err == nil {
		t.Errorf("cloned from an unknown host\n%s", out)
	}
	if requests := server.Requests(); len(requests) != 2 {
		t.Errorf("connections are %q", requests)
	}
}

func TestHistory(t *testing.T) {
	repository := gittest.Serve(t).Repository(t, "demo", map[string]string{"a": "1"})
	first := repository.Head(t)
	repository.Branch(t, "old")
	repository.Tag(t, "v1")
	repository.AnnotatedTag(t, "v2")
	repository.Link(t, "link", "a")
	repository.Submodule(t, "module")
	repository.Large(t, "large", 1<<20)
	side := repository.CommitTo(t, "side", map[string]string{"b": "2"}, "side")
	if side == repository.Head(t) || repository.Git(t, "rev-parse", "old") != first {
		t.Error("branches are not apart")
	}
	listed := repository.Git(t, "ls-tree", "-l", "refs/heads/main")
	for _, want := range []string{"120000 blob", "160000 commit", "1048576\tlarge"} {
		if !strings.Contains(listed, want) {
			t.Errorf("%q is not in\n%s", want, listed)
		}
	}
	if kind := repository.Git(t, "cat-file", "-t", "v2"); kind != "tag" {
		t.Errorf("v2 is a %s", kind)
	}
	repository.Reset(t, first)
	repository.DeleteBranch(t, "side")
	if refs := repository.Git(t, "for-each-ref", "--format=%(refname)", "refs/heads"); refs != "refs/heads/main\nrefs/heads/old" {
		t.Errorf("branches are\n%s", refs)
	}
}
