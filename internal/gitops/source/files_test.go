package source_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/secret"
)

// fileAt is a file at an address, for a project that allows everything.
func fileAt(t *testing.T, url string) project.Admitted {
	t.Helper()
	admitted, err := open(t).AdmitDependency(project.Unlimited("team"), job.Dependency{RepoURL: url, File: true})
	must(t, err)
	return admitted
}

// A file is read with the credentials of its project. It is requested once for
// its age, and transferred again only after a change.
func TestFile(t *testing.T) {
	content, transfers, requests := "a: 1\n", 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		if _, given, _ := r.BasicAuth(); given != password {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		tag := `"` + content + `"`
		w.Header().Set("ETag", strings.ReplaceAll(tag, "\n", ""))
		if r.Header.Get("If-None-Match") == w.Header().Get("ETag") {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		transfers++
		_, _ = w.Write([]byte(content))
	}))
	t.Cleanup(server.Close)
	url := server.URL + "/v1/install.yaml"
	s := open(t, with(credential.Credential{URL: url, Username: "ada", Password: secret.New(password)}))
	first, err := s.Resolve(t.Context(), fileAt(t, url), 0)
	must(t, err)
	if got := read(t, first.Store, job.FileName); got != content || len(first.Revision) != 64 {
		t.Errorf("read %q at %q", got, first.Revision)
	}
	if _, err := s.Resolve(t.Context(), fileAt(t, url), -1); err != nil || requests != 1 {
		t.Errorf("%v after %d requests: what is young enough is not requested", err, requests)
	}
	again, err := s.Resolve(t.Context(), fileAt(t, url), 0)
	if err != nil || again.Revision != first.Revision || read(t, again.Store, job.FileName) != content || requests != 2 || transfers != 1 {
		t.Errorf("%v after %d requests and %d transfers", err, requests, transfers)
	}
	content = "a: 2\n"
	changed, err := s.Resolve(t.Context(), fileAt(t, url), 0)
	if err != nil || changed.Revision == first.Revision || read(t, changed.Store, job.FileName) != content {
		t.Errorf("%v, a change is %q", err, changed.Revision)
	}
	_, err = open(t).Resolve(t.Context(), fileAt(t, url), 0)
	wantError(t, err, source.Denied, "add a Secret")
}

// Pages, files without an end and servers that lead elsewhere are errors.
func TestHostileFiles(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page.yaml":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte("<html>log in</html>"))
		case "/large.yaml":
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(strings.Repeat("# large\n", 1<<13))); err != nil {
					return
				}
			}
		case "/unchanged.yaml":
			w.WriteHeader(http.StatusNotModified)
		case "/loop.yaml":
			http.Redirect(w, r, "/loop.yaml", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	s := open(t)
	for name, want := range map[string]struct {
		kind source.ErrorKind
		text string
	}{
		"page": {source.Unreachable, "web page"}, "large": {source.Refused, "more than 10485760 bytes"}, "unchanged": {source.Unreachable, "no file"},
		"loop": {source.Unreachable, "redirects"}, "missing": {source.NotFound, "does not have it"},
	} {
		_, err := s.Resolve(t.Context(), fileAt(t, server.URL+"/"+name+".yaml"), 0)
		wantError(t, err, want.kind, want.text)
	}
}
