package source_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/tree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open makes Sources in a folder of the test; change may change the options.
func open(t testing.TB, change ...func(*source.Options)) *source.Sources {
	t.Helper()
	options := source.Options{Folder: t.TempDir(), FetchTimeout: 30 * time.Second}
	for _, f := range change {
		f(&options)
	}
	s, err := source.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// with adds one credential.
func with(c credential.Credential, change ...func(*credential.Store)) func(*source.Options) {
	return func(o *source.Options) {
		book := &credential.Store{}
		c.Scope = credential.Repository
		book.Set(types.NamespacedName{Namespace: "argocd", Name: "one"}, c)
		for _, f := range change {
			f(book)
		}
		o.Credentials = book
	}
}

func at(url, revision string) project.Admitted {
	return admit(v1alpha1.ApplicationSource{RepoURL: url, TargetRevision: revision, Path: "."})
}

// admit is a project that allows everything. What is no address is not admitted,
// and nothing resolves it.
func admit(of v1alpha1.ApplicationSource) project.Admitted {
	admitted, err := project.Unlimited("team").Admit(of)
	if err != nil {
		return project.Admitted{}
	}
	return admitted
}

// resolve asks the server, and fails the test on an error.
func resolve(t testing.TB, s *source.Sources, url, revision string) *source.Resolved {
	t.Helper()
	r, err := s.Resolve(t.Context(), at(url, revision), 0)
	if err != nil {
		t.Fatalf("resolve %q: %v", revision, err)
	}
	return r
}

func read(t testing.TB, store tree.Store, path string) string {
	t.Helper()
	content, err := store.Read(path, 1<<20)
	if err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	return string(content)
}

// wantError checks the kind of an error and words of its text.
func wantError(t testing.TB, err error, kind source.ErrorKind, words ...string) {
	t.Helper()
	if !source.IsKind(err, kind) {
		t.Fatalf("the error is %v, want one of kind %s", err, kind)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error %q does not say %q", err, word)
		}
	}
}

func count(requests []string, part string) (n int) {
	for _, request := range requests {
		if strings.Contains(request, part) {
			n++
		}
	}
	return n
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func demo(t testing.TB, options ...gittest.Option) (*gittest.Server, *gittest.Repository) {
	t.Helper()
	server := gittest.Serve(t, options...)
	return server, server.Repository(t, "demo", map[string]string{"apps/a/one.yaml": "a: 1\n", "apps/b/two.yaml": "b: 2\n", "README": "hello"})
}
