package source_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/programs"
)

// Every form of targetRevision that Argo CD documents.
func TestRevisions(t *testing.T) {
	_, repository := demo(t)
	first := repository.Head(t)
	repository.Tag(t, "v1.0.0")
	repository.Branch(t, "old")
	second := repository.Commit(t, map[string]string{"README": "second"}, "second")
	repository.AnnotatedTag(t, "v1.2.0")
	repository.Tag(t, "app/v0.9.0")
	third := repository.Commit(t, map[string]string{"README": "third"}, "third")
	repository.Tag(t, "v2.0.0-rc.1")
	repository.Tag(t, "not-a-version")
	head := repository.Commit(t, map[string]string{"README": "head"}, "head")
	s := open(t)
	for _, tt := range []struct{ name, revision, want string }{
		{"empty is HEAD", "", head},
		{"HEAD", "HEAD", head},
		{"branch", "main", head},
		{"branch by its full name", "refs/heads/old", first},
		{"tag", "v1.0.0", first},
		{"tag by its full name", "refs/tags/v1.0.0", first},
		{"annotated tag is its commit", "v1.2.0", second},
		{"full commit", second, second},
		{"full commit in capitals", strings.ToUpper(third), third},
		{"abbreviated commit that was fetched", third[:7], third},
		{"range with a star", "v1.*", second},
		{"range with x", "1.x", second},
		{"range with comparisons", ">=1.0.0 <1.1.0", first},
		{"any version is the highest that is no pre-release", "*", second},
		{"pre-releases with -0", "*-0", third},
		{"range of tags in a folder", "app/v0.*", second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := resolve(t, s, repository.URL(), tt.revision)
			if got.Revision != tt.want || got.Commit.ID != tt.want || got.Chart {
				t.Errorf("got %s, chart %t, want %s", got.Revision, got.Chart, tt.want)
			}
		})
	}
}

// With a prefix of tags, versions and ranges are about the tags that begin with it.
func TestTagPrefix(t *testing.T) {
	_, repository := demo(t)
	repository.Tag(t, "app/v1.0.0")
	first := repository.Head(t)
	repository.Commit(t, map[string]string{"README": "second"}, "second")
	repository.Tag(t, "app/v1.2.0")
	repository.Tag(t, "app/1.2.5-rc.1")
	second := repository.Head(t)
	head := repository.Commit(t, map[string]string{"README": "head"}, "head")
	repository.Tag(t, "v1.9.0")
	repository.Tag(t, "application/v1.9.0")
	s := open(t)
	for _, tt := range []struct{ prefix, revision, want, problem string }{
		{"app/", "1.x", second, ""},
		{"app/", "~1.0.0", first, ""},
		{"app/v", "1.*", second, ""},
		{"app/", "v1.0.0", first, ""},
		{"app/", "main", head, ""},
		{"app/", first, first, ""},
		{"", "1.x", head, ""},
		{"app/", "v1.9.0", "", `no branch, tag or commit "app/v1.9.0"`},
		{"other/", "1.x", "", `no tag that begins with "other/" is in the range "1.x"`},
	} {
		of := v1alpha1.ApplicationSource{RepoURL: repository.URL(), Path: ".", TargetRevision: tt.revision, TagPrefix: tt.prefix}
		got, err := s.Resolve(t.Context(), admit(of), -1)
		if tt.problem != "" {
			if err == nil || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("%s with %s: %v", tt.revision, tt.prefix, err)
			}
			continue
		}
		if err != nil || got.Revision != tt.want {
			t.Errorf("%s with %s is %+v, %v, want %s", tt.revision, tt.prefix, got, err, tt.want)
		}
	}
}

// A commit that no ref names, by an abbreviation that nothing here knows yet.
func TestAbbreviatedCommitOfHistory(t *testing.T) {
	_, repository := demo(t)
	first := repository.Head(t)
	repository.Commit(t, map[string]string{"README": "second"}, "second")
	if got := resolve(t, open(t), repository.URL(), first[:9]); got.Revision != first {
		t.Errorf("got %s, want %s", got.Revision, first)
	}
}

func TestRefusedRevisions(t *testing.T) {
	server, repository := demo(t)
	s := open(t)
	for _, revision := range []string{
		"--upload-pack=touch", "-v1", "main..old", "main@{1}", "main~1", "main^", "a b", "a:b", "a\nb", "a\x00b",
		"refs//heads", "main.lock", "$(id)", "`id`", strings.Repeat("a", 300),
	} {
		_, err := s.Resolve(t.Context(), at(repository.URL(), revision), 0)
		wantError(t, err, source.Invalid, "write a branch")
	}
	_, err := s.Resolve(t.Context(), at(repository.URL(), "nothing"), 0)
	wantError(t, err, source.NotFound, `"nothing"`, "deleted")
	_, err = s.Resolve(t.Context(), at(repository.URL(), "3.x"), 0)
	wantError(t, err, source.NotFound, "range")
	if n := count(server.Requests(), "POST"); n != 0 {
		t.Errorf("%d fetches for revisions that name nothing", n)
	}
}

// Argo CD documents that it takes either, and to write the full name.
func TestBranchAndTagOfOneName(t *testing.T) {
	_, repository := demo(t)
	repository.Tag(t, "release")
	tagged := repository.Head(t)
	branched := repository.CommitTo(t, "release", map[string]string{"x": "y"}, "on the branch")
	s := open(t)
	_, err := s.Resolve(t.Context(), at(repository.URL(), "release"), 0)
	wantError(t, err, source.Ambiguous, "refs/heads/release", "refs/tags/release")
	if got := resolve(t, s, repository.URL(), "refs/tags/release").Revision; got != tagged {
		t.Errorf("the tag is %s, want %s", got, tagged)
	}
	if got := resolve(t, s, repository.URL(), "refs/heads/release").Revision; got != branched {
		t.Errorf("the branch is %s, want %s", got, branched)
	}
}

func TestCommit(t *testing.T) {
	_, repository := demo(t)
	id := repository.Commit(t, map[string]string{"README": "x"}, "a message\n\nwith more")
	got, err := open(t).Commit(t.Context(), at(repository.URL(), id))
	if err != nil {
		t.Fatal(err)
	}
	want := source.Commit{ID: id, Author: "Test <test@example.com>", Message: "a message\n\nwith more", When: time.Unix(1_760_000_060, 0).UTC()}
	if *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
}

func TestMovedBranch(t *testing.T) {
	server, repository := demo(t)
	first := repository.Head(t)
	s := open(t)
	before := resolve(t, s, repository.URL(), "main")
	second := repository.Commit(t, map[string]string{"README": "second", "apps/b/two.yaml": "b: 3\n"}, "second")

	// What is young enough is believed.
	old, err := s.Resolve(t.Context(), at(repository.URL(), "main"), time.Hour)
	if err != nil || old.Revision != first {
		t.Errorf("believed %v, %v, want %s", old, err, first)
	}
	after := resolve(t, s, repository.URL(), "main")
	if after.Revision != second || read(t, after.Store, "README") != "second" {
		t.Errorf("got %s, want %s", after.Revision, second)
	}
	if read(t, before.Store, "README") != "hello" {
		t.Error("the Store of the commit before has changed")
	}
	// A folder that was not touched has the same hash, another one has not.
	if hash(t, before.Store, "apps/a") != hash(t, after.Store, "apps/a") {
		t.Error("the hash of an untouched folder has changed")
	}
	if hash(t, before.Store, "apps/b") == hash(t, after.Store, "apps/b") || hash(t, before.Store, "") == hash(t, after.Store, "") {
		t.Error("the hash of a changed folder has not changed")
	}
	if n := count(server.Requests(), "POST"); n != 2 {
		t.Errorf("%d fetches, want 2", n)
	}
}

func hash(t *testing.T, store tree.Store, path string) string {
	t.Helper()
	entry, err := store.Entry(path)
	if err != nil || entry.Hash == "" || entry.Kind != tree.Folder {
		t.Fatalf("%s is %+v, %v", path, entry, err)
	}
	return entry.Hash
}

func TestForcedPush(t *testing.T) {
	_, repository := demo(t)
	first := repository.Head(t)
	s := open(t)
	lost := repository.Commit(t, map[string]string{"README": "lost"}, "lost")
	before := resolve(t, s, repository.URL(), "main")
	repository.Reset(t, first)
	other := repository.Commit(t, map[string]string{"README": "other"}, "other")
	after := resolve(t, s, repository.URL(), "main")
	if before.Revision != lost || after.Revision != other || read(t, after.Store, "README") != "other" {
		t.Errorf("got %s, then %s", before.Revision, after.Revision)
	}
	if read(t, before.Store, "README") != "lost" {
		t.Error("the Store of the lost commit has changed")
	}
	// It is still here, though no ref has it.
	if got := resolve(t, s, repository.URL(), lost); got.Revision != lost {
		t.Errorf("got %s", got.Revision)
	}
}

func TestDeletedBranch(t *testing.T) {
	_, repository := demo(t)
	repository.Branch(t, "gone")
	s := open(t)
	before := resolve(t, s, repository.URL(), "gone")
	repository.DeleteBranch(t, "gone")
	_, err := s.Resolve(t.Context(), at(repository.URL(), "gone"), 0)
	wantError(t, err, source.NotFound, `"gone"`, "deleted")
	if read(t, before.Store, "README") != "hello" {
		t.Error("the Store of the deleted branch cannot be read")
	}
}

func TestKnownCommitAsksNobody(t *testing.T) {
	server, repository := demo(t)
	folder := t.TempDir()
	here := func(o *source.Options) { o.Folder = folder }
	s := open(t, here)
	id := resolve(t, s, repository.URL(), "main").Revision
	asked := len(server.Requests())
	server.SetDown(true)
	if got := resolve(t, s, repository.URL(), id); read(t, got.Store, "README") != "hello" {
		t.Error("another content")
	}
	// Nor after a restart.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := resolve(t, open(t, here), repository.URL(), id); read(t, got.Store, "README") != "hello" {
		t.Error("another content")
	}
	if now := server.Requests(); len(now) != asked {
		t.Errorf("asked %q", now[asked:])
	}
}

// Fifty callers share one request for the refs, and one for the pack.
func TestConcurrentResolvesShareRequests(t *testing.T) {
	server, repository := demo(t)
	s := open(t)
	release := server.Hold()
	defer release()
	const callers = 50
	results := make(chan error, callers)
	started := make(chan struct{}, callers)
	for range callers {
		go func() {
			started <- struct{}{}
			r, err := s.Resolve(soon(t), at(repository.URL(), "main"), 0)
			if err == nil {
				_, err = r.Store.Read("README", 100)
			}
			results <- err
		}()
	}
	for range callers {
		<-started
	}
	release()
	for range callers {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	refs, packs := count(server.Requests(), "GET"), count(server.Requests(), "POST")
	// A caller may have been descheduled before its request until the first
	// one had its response; it then sends its own.
	if refs > 3 || packs != 1 {
		t.Errorf("%d requests for refs and %d for packs", refs, packs)
	}
}

func TestForget(t *testing.T) {
	server, repository := demo(t)
	s := open(t)
	resolve(t, s, repository.URL(), "main")
	second := repository.Commit(t, map[string]string{"README": "second"}, "second")
	asked := len(server.Requests())
	s.Forget(repository.URL())
	got, err := s.Resolve(t.Context(), at(repository.URL(), "main"), time.Hour)
	if err != nil || got.Revision != second {
		t.Errorf("got %v, %v", got, err)
	}
	if len(server.Requests()) == asked {
		t.Error("nobody was asked")
	}
}

// A request that was sent before the push does not serve a caller after it.
func TestForgetWhileAsking(t *testing.T) {
	server, repository := demo(t)
	s := open(t)
	release := server.Hold()
	first := make(chan error, 1)
	go func() {
		_, err := s.Resolve(soon(t), at(repository.URL(), "main"), 0)
		first <- err
	}()
	programs.Until(t, "it happens", func() bool { return len(server.Requests()) == 1 })
	s.Forget(repository.URL())
	second := make(chan error, 1)
	go func() {
		_, err := s.Resolve(soon(t), at(repository.URL(), "main"), time.Hour)
		second <- err
	}()
	programs.Until(t, "it happens", func() bool { return len(server.Requests()) == 2 })
	release()
	for _, result := range []chan error{first, second} {
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
}

// A server that gives only what refs name, as git does by default.
func TestServerWithoutCommitsByID(t *testing.T) {
	server, repository := demo(t)
	repository.Config(t, "uploadpack.allowReachableSHA1InWant", "false")
	first := repository.Head(t)
	for range 3 {
		repository.Commit(t, map[string]string{"README": time.Now().String()}, "more")
	}
	s := open(t)
	if got := resolve(t, s, repository.URL(), first); got.Revision != first || read(t, got.Store, "README") != "hello" {
		t.Errorf("got %s", got.Revision)
	}
	asked := count(server.Requests(), "POST")
	_, err := s.Resolve(t.Context(), at(repository.URL(), strings.Repeat("12", 20)), 0)
	wantError(t, err, source.NotFound, "name a branch")
	if more := count(server.Requests(), "POST") - asked; more > 3 {
		t.Errorf("%d fetches for a commit that does not exist", more)
	}
}

// A branch that moves between the question and the fetch.
func TestBranchMovesMeanwhile(t *testing.T) {
	_, repository := demo(t)
	repository.Config(t, "uploadpack.allowReachableSHA1InWant", "false")
	first := repository.Head(t)
	repository.CommitTo(t, "side", map[string]string{"README": "lost"}, "lost")
	s := open(t)
	resolve(t, s, repository.URL(), "main")
	repository.Git(t, "update-ref", "refs/heads/side", first)
	moved := repository.CommitTo(t, "side", map[string]string{"README": "moved"}, "moved")
	got, err := s.Resolve(t.Context(), at(repository.URL(), "side"), time.Hour)
	if err != nil || got.Revision != moved {
		t.Errorf("got %v, %v, want %s", got, err, moved)
	}
	// A commit that is new since the last response, by its id.
	repository.Branch(t, "other")
	newest := repository.CommitTo(t, "other", map[string]string{"README": "newest"}, "newest")
	got, err = s.Resolve(t.Context(), at(repository.URL(), newest), 0)
	if err != nil || got.Revision != newest {
		t.Errorf("got %v, %v, want %s", got, err, newest)
	}
}

// Damage that is seen while a file is read is gone at the next Resolve.
func TestDamageWhileOpen(t *testing.T) {
	_, repository := demo(t)
	folder := t.TempDir()
	s := open(t, func(o *source.Options) { o.Folder = folder })
	got := resolve(t, s, repository.URL(), "main")
	packs, err := filepath.Glob(filepath.Join(folder, "git/*/*/objects/pack/*.pack"))
	must(t, err)
	content, err := os.ReadFile(packs[0])
	must(t, err)
	must(t, os.Chmod(packs[0], 0o600))
	must(t, os.WriteFile(packs[0], make([]byte, len(content)), 0o600))
	if _, err := got.Store.Read("README", 100); err == nil || isMissing(err) {
		t.Errorf("reading a damaged file: %v", err)
	}
	for _, revision := range []string{"main", got.Revision} {
		if again := resolve(t, s, repository.URL(), revision); read(t, again.Store, "README") != "hello" {
			t.Error("another content")
		}
	}
}

func TestNoRepository(t *testing.T) {
	server, repository := demo(t)
	_, err := open(t).Resolve(t.Context(), at(strings.Replace(repository.URL(), "demo", "other", 1), "main"), 0)
	wantError(t, err, source.NotFound, "check the address")
	for _, url := range []string{"", "ftp://example.com/x", "https://", "/etc/passwd", "file:///etc", "https://example.com", "ext::sh -c id", "git@-oProxyCommand=x:y"} {
		_, err := open(t).Resolve(t.Context(), at(url, "main"), 0)
		wantError(t, err, source.Invalid)
	}
	_ = server
}

func TestEmptyRepository(t *testing.T) {
	server := gittest.Serve(t)
	repository := server.Repository(t, "demo", nil)
	repository.DeleteBranch(t, "main")
	_, err := open(t).Resolve(t.Context(), at(repository.URL(), ""), 0)
	wantError(t, err, source.NotFound, "empty")
}

func TestPaths(t *testing.T) {
	_, repository := demo(t)
	s := open(t)
	for path, want := range map[string]string{"": "", ".": "", "./apps/a/": "apps/a", "apps//b/../a": "apps/a"} {
		wanted := admit(v1alpha1.ApplicationSource{RepoURL: repository.URL(), TargetRevision: "main", Path: path})
		got, err := s.Resolve(t.Context(), wanted, time.Hour)
		if err != nil || got.Path != want {
			t.Errorf("%q is %v, %v, want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"/etc", "../x", "apps/../../x"} {
		wanted := admit(v1alpha1.ApplicationSource{RepoURL: repository.URL(), TargetRevision: "main", Path: path})
		_, err := s.Resolve(t.Context(), wanted, time.Hour)
		wantError(t, err, source.Invalid, "path")
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	folder := t.TempDir()
	open(t, func(o *source.Options) { o.Folder = folder })
	if _, err := source.New(source.Options{Folder: folder}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("the error is %v", err)
	}
}

// Every fetch adds a pack; after some the repository is fetched again in full, and Stores
// that were given out stay readable.
func TestRepositoryIsFetchedAnew(t *testing.T) {
	server, repository := demo(t)
	folder := t.TempDir()
	s := open(t, func(o *source.Options) { o.Folder = folder })
	stores := map[string]tree.Store{}
	for i := range 60 {
		text := strings.Repeat("x", i+1)
		repository.Commit(t, map[string]string{"README": text}, "more")
		stores[text] = resolve(t, s, repository.URL(), "main").Store
	}
	for text, store := range stores {
		if read(t, store, "README") != text || read(t, store, "apps/a/one.yaml") != "a: 1\n" {
			t.Error("a Store has another content")
		}
	}
	packs, err := filepath.Glob(filepath.Join(folder, "git/*/*/objects/pack/*.pack"))
	if err != nil || len(packs) == 0 || len(packs) > 24 {
		t.Errorf("%d packs, %v", len(packs), err)
	}
	if n := count(server.Requests(), "POST"); n != 60 {
		t.Errorf("%d fetches", n)
	}
}

func TestDamagedFolderIsFetchedAgain(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, pack string){
		"cut off": func(t *testing.T, pack string) { must(t, os.Truncate(pack, 40)) },
		"no pack": func(t *testing.T, pack string) { must(t, os.Remove(pack)) },
		"no index": func(t *testing.T, pack string) {
			must(t, os.Remove(strings.TrimSuffix(pack, ".pack")+".idx"))
		},
		"other bytes": func(t *testing.T, pack string) {
			content, err := os.ReadFile(pack)
			must(t, err)
			for i := 12; i < len(content)-20; i++ {
				content[i] ^= 0x55
			}
			must(t, os.Remove(pack))
			must(t, os.WriteFile(pack, content, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, repository := demo(t)
			folder := t.TempDir()
			here := func(o *source.Options) { o.Folder = folder }
			s := open(t, here)
			resolve(t, s, repository.URL(), "main")
			must(t, s.Close())
			packs, err := filepath.Glob(filepath.Join(folder, "git/*/*/objects/pack/*.pack"))
			if err != nil || len(packs) != 1 {
				t.Fatalf("packs are %q, %v", packs, err)
			}
			damage(t, packs[0])
			got := resolve(t, open(t, here), repository.URL(), "main")
			if read(t, got.Store, "README") != "hello" {
				t.Error("another content")
			}
			if left, err := filepath.Glob(filepath.Join(folder, "git/*/*")); err != nil || len(left) != 1 {
				t.Errorf("folders are %q, %v", left, err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Of a commit that changes little, little is sent.
func TestOnlyWhatIsNewIsSent(t *testing.T) {
	files := map[string]string{}
	for i := range 200 {
		files["file"+strings.Repeat("i", i)] = strings.Repeat("content ", i) + time.Now().String()
	}
	repository := gittest.Serve(t).Repository(t, "demo", files)
	var fetches []source.Fetch
	s := open(t, func(o *source.Options) {
		o.Observe = func(f source.Fetch) {
			if f.What == "pack" {
				fetches = append(fetches, f)
			}
		}
	})
	resolve(t, s, repository.URL(), "main")
	repository.Commit(t, map[string]string{"README": "new"}, "more")
	got := resolve(t, s, repository.URL(), "main")
	if len(fetches) != 2 || fetches[1].Bytes*5 > fetches[0].Bytes {
		t.Errorf("fetches are %+v", fetches)
	}
	if read(t, got.Store, "README") != "new" || read(t, got.Store, "fileiii") != files["fileiii"] {
		t.Error("another content")
	}
}

func TestCallerThatGivesUp(t *testing.T) {
	server, repository := demo(t)
	s := open(t)
	release := server.Hold()
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() {
		_, err := s.Resolve(soon(t), at(repository.URL(), "main"), 0)
		waiting <- err
	}()
	programs.Until(t, "it happens", func() bool { return len(server.Requests()) == 1 })
	cancel()
	_, err := s.Resolve(ctx, at(repository.URL(), "main"), 0)
	wantError(t, err, source.Unreachable)
	release()
	// The one that waits on is not concerned.
	must(t, <-waiting)
}
