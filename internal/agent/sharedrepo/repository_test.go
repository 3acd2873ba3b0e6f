package sharedrepo_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// somebody is the user who requests a change, and runtime the committer.
func somebody() sharedrepo.Writer {
	return sharedrepo.Writer{Author: sharedrepo.Author{Name: "Ada Lovelace", Email: "ada@example.com"}}
}

func runtime() sharedrepo.Author {
	return sharedrepo.Author{Name: "Slipway runtime demo", Email: "demo@slipway.invalid"}
}

// open opens a location below a repository of the test.
func open(t *testing.T, text string, access remote.Access) *sharedrepo.Repository {
	t.Helper()
	location := must.Get(sharedrepo.Parse(text))(t)
	return must.Get(sharedrepo.Open(sharedrepo.Options{Location: location, Access: access, Committer: runtime(), Folder: t.TempDir()}))(t)
}

// write is a change that writes one file.
func write(name, content string) func(sharedrepo.Files) error {
	return func(files sharedrepo.Files) error { return files.Write(name, []byte(content)) }
}

// empty is a repository without any branch, as providers make them.
func empty(t *testing.T, server *gittest.Server) *gittest.Repository {
	t.Helper()
	repository := server.Repository(t, "config", map[string]string{"x": "x"})
	repository.DeleteBranch(t, gittest.Main)
	return repository
}

// change makes a change that has to succeed.
func change(t *testing.T, repository *sharedrepo.Repository, with func(sharedrepo.Files) error) string {
	t.Helper()
	return must.Get(repository.Change(t.Context(), "a change", somebody(), with))(t)
}

// TestWaysIn: HTTPS with a token, with a name and password and a CA of its own,
// and SSH with a pinned host lead to the repository, for reading and for writing.
// (R8, R66, R67)
func TestWaysIn(t *testing.T) {
	const password = "canary-password-4711"
	for name, serve := range map[string]func(t *testing.T) (*gittest.Server, remote.Access){
		"token": func(t *testing.T) (*gittest.Server, remote.Access) {
			return gittest.Serve(t, gittest.BearerToken(password)), remote.Access{Credential: credential.Credential{BearerToken: secret.New(password)}}
		},
		"password and authority": func(t *testing.T) (*gittest.Server, remote.Access) {
			server := gittest.Serve(t, gittest.BasicAuth("ada", password), gittest.TLS())
			return server, remote.Access{
				Credential:  credential.Credential{Username: "ada", Password: secret.New(password)},
				Authorities: []byte(server.CertificateAuthority()),
			}
		},
		"SSH": func(t *testing.T) (*gittest.Server, remote.Access) {
			server := gittest.ServeSSH(t)
			return server, remote.Access{
				Credential: credential.Credential{SSHPrivateKey: secret.New(server.PrivateKey())}, KnownHosts: []byte(server.KnownHosts()),
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, access := serve(t)
			origin := empty(t, server)
			repository := open(t, origin.URL(), access)
			first := change(t, repository, write("a/one.yaml", "one: 1\n"))
			second := change(t, repository, write("a/two.yaml", "two: 2\n"))
			if origin.Head(t) != second || origin.Git(t, "rev-parse", second+"^") != first {
				t.Fatalf("main is at %s, not at %s after %s", origin.Head(t), second, first)
			}
			origin.Git(t, "fsck", "--strict")
			if got := origin.Git(t, "show", second+":a/one.yaml"); got != "one: 1" {
				t.Errorf("the first file is %q", got)
			}
			who := origin.Git(t, "log", "-1", "--format=%an|%ae|%cn|%ce|%s", second)
			if want := "Ada Lovelace|ada@example.com|Slipway runtime demo|demo@slipway.invalid|a change"; who != want {
				t.Errorf("the commit is of %s, not of %s", who, want)
			}
			refused := open(t, origin.URL(), remote.Access{})
			if _, err := refused.Change(t.Context(), "no", somebody(), write("x", "y")); err == nil || strings.Contains(err.Error(), password) {
				t.Errorf("without a credential: %v", err)
			}
		})
	}
}

// TestConcurrentWriters: eight runtimes write at the same time, each through a
// connection of its own. All commits are on the branch and no line is lost, also
// in the one file that all of them change.
func TestConcurrentWriters(t *testing.T) {
	const writers, each = 8, 3
	origin := empty(t, gittest.Serve(t))
	var all sync.WaitGroup
	failed := make(chan error, writers*each)
	for number := range writers {
		repository := open(t, origin.URL()+"/team/shared?ref=live", remote.Access{})
		all.Go(func() {
			for round := range each {
				_, err := repository.Change(t.Context(), "write", somebody(), func(files sharedrepo.Files) error {
					line := fmt.Sprintf("%d-%d\n", number, round)
					list, _, err := files.Read("list")
					return errors.Join(err, files.Write("list", append(list, line...)), files.Write("items/"+strings.TrimSpace(line), []byte(line)))
				})
				failed <- err
			}
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			t.Error(err)
		}
	}
	origin.Git(t, "fsck", "--strict")
	if got := origin.Git(t, "rev-list", "--count", "refs/heads/live"); got != fmt.Sprint(writers*each) {
		t.Errorf("there are %s commits, not %d", got, writers*each)
	}
	lines := strings.Fields(origin.Git(t, "show", "refs/heads/live:team/shared/list"))
	items := strings.Fields(origin.Git(t, "ls-tree", "--name-only", "refs/heads/live:team/shared/items"))
	if len(lines) != writers*each || len(items) != writers*each {
		t.Errorf("%d lines and %d files are there, not %d: %v", len(lines), len(items), writers*each, lines)
	}
}
