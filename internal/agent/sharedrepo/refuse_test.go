package sharedrepo_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/must"
)

// TestPathsOutside: a change reads and writes below the path of its location and
// nowhere else; links and submodules are neither followed nor replaced. Nothing is
// pushed after a refusal.
func TestPathsOutside(t *testing.T) {
	origin := gittest.Serve(t).Repository(t, "config", map[string]string{"secret": "outside", "shared/file": "inside", "linked/file": "x"})
	origin.Link(t, "shared/link", "../secret")
	origin.Link(t, "shared/folder", "../linked")
	head := origin.Submodule(t, "shared/module")
	repository := open(t, origin.URL()+"/shared", remote.Access{})
	for _, name := range []string{
		"", ".", "..", "../secret", "a/../../secret", "/secret", "a//b", "./a", "a/", `a\b`, "a\x00b", "a\nb", ".git/config", "a/.GIT/hooks/x", "a/.git. /x",
		"link", "link/below", "folder/file", "module", "module/x", "file/below", strings.Repeat("a", 2000),
	} {
		for what, use := range map[string]func(sharedrepo.Files) error{
			"write": func(files sharedrepo.Files) error { return files.Write(name, []byte("x")) },
			"read": func(files sharedrepo.Files) error {
				content, found, err := files.Read(name)
				if found {
					t.Errorf("%q is read: %q", name, content)
				}
				return err
			},
		} {
			_, err := repository.Change(t.Context(), "no", somebody(), use)
			var refused *sharedrepo.PathError
			if !errors.As(err, &refused) && (what != "read" || name != "file/below") {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
	if origin.Head(t) != head {
		t.Error("something was pushed")
	}
	if _, err := repository.View(t.Context(), func(files sharedrepo.Files) error {
		if all, err := files.List("."); err != nil || len(all) != 1 || all[0] != "file" {
			t.Errorf("the files are %v: %v", all, err)
		}
		if all, err := files.List(".."); err == nil {
			t.Errorf("a folder outside is listed: %v", all)
		}
		content, found, err := files.Read("file")
		if string(content) != "inside" || !found {
			t.Errorf("the file is %q", content)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestBranches: a branch that does not exist begins at the default branch, which
// stays as it is; untouched files stay too. A change that changes nothing
// makes no commit. Removing the last file of a folder removes the folder.
func TestBranches(t *testing.T) {
	origin := gittest.Serve(t).Repository(t, "config", map[string]string{"other/deep/file": "kept", "run.sh": "x", "a/b/c": "1"})
	main := origin.Head(t)
	repository := open(t, origin.URL()+"?ref=team/live", remote.Access{})
	first := change(t, repository, write("a/b/c", "2"))
	if origin.Head(t) != main || origin.Git(t, "rev-parse", first+"^") != main {
		t.Error("main moved, or the branch does not begin there")
	}
	if again := change(t, repository, write("a/b/c", "2")); again != first {
		t.Errorf("the same again is the commit %s, not %s", again, first)
	}
	change(t, repository, func(files sharedrepo.Files) error {
		return errors.Join(files.Remove("a/b/c"), files.Remove("not/there"))
	})
	if got, want := origin.Git(t, "ls-tree", "-r", "--name-only", "team/live"), "other/deep/file\nrun.sh"; got != want {
		t.Errorf("the files are %q, not %q", got, want)
	}
	change(t, repository, func(files sharedrepo.Files) error { return errors.Join(files.Remove("other"), files.Remove("run.sh")) })
	if got := origin.Git(t, "ls-tree", "-r", "team/live"); got != "" {
		t.Errorf("the files are %q", got)
	}
	change(t, repository, write("again", "x"))
	origin.Git(t, "fsck", "--strict")
}

// TestDefaultBranch: without a branch it is the one that HEAD names.
func TestDefaultBranch(t *testing.T) {
	origin := gittest.Serve(t).Repository(t, "config", map[string]string{"x": "x"})
	origin.Branch(t, "trunk")
	origin.Git(t, "symbolic-ref", "HEAD", "refs/heads/trunk")
	main := origin.Head(t)
	commit := change(t, open(t, origin.URL(), remote.Access{}), write("y", "y"))
	if origin.Git(t, "rev-parse", "refs/heads/trunk") != commit || origin.Head(t) != main {
		t.Error("the commit is not on the default branch")
	}
}

// TestRejectedPush: a server that refuses a push is not asked again and again, and
// its reason is reported.
func TestRejectedPush(t *testing.T) {
	server := gittest.Serve(t)
	origin := server.Repository(t, "config", map[string]string{"x": "x"})
	hook := filepath.Join(origin.Dir(), "hooks", "pre-receive")
	must.Do(t, os.MkdirAll(filepath.Dir(hook), 0o755))
	must.Do(t, os.WriteFile(hook, []byte("#!/bin/sh\nexit 1\n"), 0o755))
	repository := open(t, origin.URL(), remote.Access{})
	_, err := repository.Change(t.Context(), "no", somebody(), write("y", "y"))
	var rejected *remote.RejectedError
	if !errors.As(err, &rejected) || !strings.Contains(err.Error(), "pre-receive hook declined") {
		t.Errorf("the error is %v", err)
	}
	pushes := 0
	for _, request := range server.Requests() {
		if strings.HasPrefix(request, http.MethodPost) && strings.HasSuffix(request, "git-receive-pack") {
			pushes++
		}
	}
	if pushes != 1 {
		t.Errorf("there were %d pushes", pushes)
	}
}

// TestUnreachable: a server that is away, an address without a repository, and a
// wrong host key have different reasons, and no credential is in the messages.
func TestUnreachable(t *testing.T) {
	server := gittest.Serve(t)
	origin := server.Repository(t, "config", map[string]string{"x": "x"})
	for want, repository := range map[remote.Reason]*sharedrepo.Repository{
		remote.Missing:     open(t, strings.Replace(origin.URL(), "config.git", "other.git", 1), remote.Access{}),
		remote.Unreachable: open(t, "http://127.0.0.1:1/config.git", remote.Access{}),
	} {
		_, err := repository.Change(t.Context(), "no", somebody(), write("y", "y"))
		var failure *remote.Failure
		if !errors.As(err, &failure) || failure.Reason != want {
			t.Errorf("the error is %v, not %s", err, want)
		}
	}
}

// TestAuthorNames: names of users cannot add lines to a commit.
func TestAuthorNames(t *testing.T) {
	origin := gittest.Serve(t).Repository(t, "config", map[string]string{"x": "x"})
	repository := open(t, origin.URL(), remote.Access{})
	evil := sharedrepo.Author{Name: "Eve\ncommitter Mallory <m@example.com> 1 +0000\n", Email: "eve@example.com> 0 +0000\n\nx <"}
	must.Get(repository.Change(t.Context(), "one\x00two\r", sharedrepo.Writer{Author: evil}, write("y", "y")))(t)
	origin.Git(t, "fsck", "--strict")
	if got, want := origin.Git(t, "log", "-1", "--format=%cn|%s"), "Slipway runtime demo|onetwo"; got != want {
		t.Errorf("the commit is %q, not %q", got, want)
	}
}
