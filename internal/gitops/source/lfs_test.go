package source_test

import (
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/secret"
)

// lfsContent is a file that Git LFS keeps.
const lfsContent = "kind: Large\n"

// objectOf is the dependency on a content that Git LFS keeps for a repository.
func objectOf(url, server, content string) job.Dependency {
	return job.Dependency{RepoURL: url, Server: server, OID: fmt.Sprintf("%x", sha256.Sum256([]byte(content))), Size: int64(len(content))}
}

// objectAt is one that a project that allows everything admits.
func objectAt(t *testing.T, s *source.Sources, wanted job.Dependency) project.Admitted {
	t.Helper()
	admitted, err := s.AdmitDependency(project.Unlimited("team"), wanted)
	must(t, err)
	return admitted
}

// A file of Git LFS is fetched with the credentials of its repository, once; also
// by a process that is started later. One that is damaged on the disk is fetched
// again.
func TestObject(t *testing.T) {
	server, repository := demo(t, gittest.BasicAuth("ada", password))
	server.Pointer(lfsContent)
	folder := t.TempDir()
	for start, requests := range []int{2, 2, 4} {
		if start == 2 {
			kept, err := filepath.Glob(filepath.Join(folder, "*", objectOf("", "", lfsContent).OID+"*"))
			if err != nil || len(kept) != 1 {
				t.Fatalf("kept are %q: %v", kept, err)
			}
			must(t, os.WriteFile(kept[0], []byte("damaged"), 0o600))
		}
		s := open(t, with(credential.Credential{URL: repository.URL(), Username: "ada", Password: secret.New(password), EnableLFS: true}), func(o *source.Options) { o.Folder = folder })
		for range 2 {
			found, err := s.Resolve(t.Context(), objectAt(t, s, objectOf(repository.URL(), "", lfsContent)), 0)
			must(t, err)
			if got := read(t, found.Store, job.FileName); got != lfsContent || found.Revision != objectOf("", "", lfsContent).OID {
				t.Errorf("read %q at %q", got, found.Revision)
			}
		}
		must(t, s.Close())
		if got := server.Requests(); count(got, "info/lfs") != requests {
			t.Errorf("the requests are %q, and not %d", got, requests)
		}
	}
}

// A token that the server gives for a content goes there in the place of the
// repository's credentials.
func TestObjectToken(t *testing.T) {
	server := serveLFS(t, false)
	repository := server.URL + "/team/lfs"
	server.header = map[string]string{"Authorization": "RemoteAuth token"}
	s := open(t, with(credential.Credential{URL: repository, BearerToken: secret.New(password), EnableLFS: true}))
	found, err := s.Resolve(t.Context(), objectAt(t, s, objectOf(repository, "", lfsContent)), 0)
	must(t, err)
	if got := read(t, found.Store, job.FileName); got != lfsContent {
		t.Errorf("read %q", got)
	}
	if got := strings.Join(server.given, ", "); got != "/team/lfs.git/info/lfs/objects/batch Bearer "+password+", /team/lfs/content RemoteAuth token" {
		t.Errorf("the server got %s", got)
	}
}

// What is not to be fetched, and what the server does not have, is an error with
// the way out.
func TestObjectErrors(t *testing.T) {
	server, repository := demo(t)
	large := objectOf(repository.URL(), "", lfsContent)
	large.Size = 10<<20 + 1
	crooked := objectOf(repository.URL(), "", lfsContent)
	crooked.OID = "../../" + crooked.OID[6:]
	enabled := open(t, with(credential.Credential{URL: repository.URL(), EnableLFS: true}))
	for name, tt := range map[string]struct {
		sources *source.Sources
		wanted  job.Dependency
		kind    source.ErrorKind
		text    string
	}{
		"not enabled": {open(t), objectOf(repository.URL(), "", lfsContent), source.Denied, `add enableLfs: "true"`},
		"too large":   {enabled, large, source.Refused, "may have 10485760"},
		"crooked":     {enabled, crooked, source.Invalid, "no proper digest"},
		"missing":     {enabled, objectOf(repository.URL(), "", lfsContent), source.NotFound, "git lfs push"},
	} {
		before := len(server.Requests())
		_, err := tt.sources.Resolve(t.Context(), objectAt(t, tt.sources, tt.wanted), 0)
		wantError(t, err, tt.kind, tt.text)
		if requests := server.Requests()[before:]; name != "missing" && len(requests) > 0 {
			t.Errorf("%s: the server was asked %q", name, requests)
		}
	}
}

// lfsServer is a server of Git LFS on a host of its own.
type lfsServer struct {
	*httptest.Server
	// href is the address of the content, and content what is there.
	href, content string
	header        map[string]string
	// given has the authorization of each request.
	given []string
}

// serveLFS starts one.
func serveLFS(t *testing.T, tls bool) *lfsServer {
	t.Helper()
	s := &lfsServer{content: lfsContent}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.given = append(s.given, r.URL.Path+" "+r.Header.Get("Authorization"))
		if !strings.HasSuffix(r.URL.Path, "/objects/batch") {
			_, _ = w.Write([]byte(s.content))
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"objects": []any{map[string]any{
			"oid": objectOf("", "", lfsContent).OID, "actions": map[string]any{"download": map[string]any{"href": s.href, "header": s.header}},
		}}})
	})
	s.Server = httptest.NewUnstartedServer(handler)
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	s.href = s.URL + "/team/lfs/content"
	t.Cleanup(s.Close)
	return s
}

// Another server, which .lfsconfig names, gets neither the credentials of the
// repository nor a request without the project's permission. Content that is not
// that of the pointer is refused.
func TestObjectOfOtherServer(t *testing.T) {
	other, storage := serveLFS(t, false), serveLFS(t, false)
	_, repository := demo(t)
	s := open(t, with(credential.Credential{URL: repository.URL(), Username: "ada", Password: secret.New(password), EnableLFS: true}))
	wanted := objectOf(repository.URL(), other.URL+"/team/lfs", lfsContent)
	limits := func(allowed ...string) *project.Project {
		compiled, _ := project.Compile(&v1alpha1.AppProject{Spec: v1alpha1.AppProjectSpec{SourceRepos: append(allowed, repository.URL())}})
		return compiled
	}
	if _, err := s.AdmitDependency(limits(), wanted); err == nil || !strings.Contains(err.Error(), "sourceRepos") {
		t.Errorf("the project allows another server: %v", err)
	}
	other.content = "something else"
	admitted, err := s.AdmitDependency(limits(other.URL+"/team/lfs", "!"+storage.URL+"/**"), wanted)
	must(t, err)
	_, err = s.Resolve(t.Context(), admitted, 0)
	wantError(t, err, source.Refused, "more than 12 bytes")
	other.content = strings.Repeat("x", len(lfsContent))
	_, err = s.Resolve(t.Context(), admitted, 0)
	wantError(t, err, source.Refused, "should have "+wanted.OID)
	other.content, other.href = lfsContent, storage.URL+"/bucket/content"
	_, err = s.Resolve(t.Context(), admitted, 0)
	wantError(t, err, source.Invalid, "forbids")
	other.href = other.URL + "/secret/content"
	_, err = s.Resolve(t.Context(), admitted, 0)
	wantError(t, err, source.Invalid, "does not allow")
	other.href = "file:///etc/passwd"
	_, err = s.Resolve(t.Context(), admitted, 0)
	wantError(t, err, source.Invalid, "no proper address")
	admitted, err = s.AdmitDependency(limits(other.URL+"/team/lfs"), wanted)
	must(t, err)
	other.href, other.header = storage.URL+"/bucket/content", map[string]string{"Authorization": "Basic of-the-server"}
	found, err := s.Resolve(t.Context(), admitted, 0)
	must(t, err)
	if got := read(t, found.Store, job.FileName); got != lfsContent {
		t.Errorf("read %q", got)
	}
	if got := strings.Join(other.given, ""); strings.Contains(got, "Basic") {
		t.Errorf("the other server got %s", got)
	}
	if got := strings.Join(storage.given, ", "); got != "/bucket/content Basic of-the-server" {
		t.Errorf("the storage got %s", got)
	}
}

// Over SSH the host names its server of Git LFS and a token. Plain HTTP does not
// get the token.
func TestObjectOverSSH(t *testing.T) {
	lfs, plain := serveLFS(t, true), serveLFS(t, false)
	host := gittest.ServeSSH(t)
	repository := host.Repository(t, "demo", map[string]string{"a": "b"})
	authorities := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: lfs.Certificate().Raw}))
	opened := sshCredential(host, repository)
	opened.EnableLFS = true
	s := open(t, with(opened, func(book *credential.Store) {
		book.SetKnownHosts([]byte(host.KnownHosts()))
		book.SetCertificateAuthorities(map[string]string{strings.TrimPrefix(lfs.URL, "https://"): authorities})
	}))
	admitted := objectAt(t, s, objectOf(repository.URL(), "", lfsContent))
	_, err := s.Resolve(t.Context(), admitted, 0)
	wantError(t, err, source.Denied, "git-lfs-authenticate", "lfs.url")
	repository.LFSAuthenticate(t, "Welcome!")
	_, err = s.Resolve(t.Context(), admitted, 0)
	wantError(t, err, source.Invalid, "does not name its server")
	for _, at := range []string{plain.URL, lfs.URL} {
		repository.LFSAuthenticate(t, fmt.Sprintf(`{"href": %q, "header": {"Authorization": "RemoteAuth token"}, "expires_in": 600}`, at+"/demo.git/info/lfs"))
		found, err := s.Resolve(t.Context(), admitted, 0)
		if at == plain.URL {
			wantError(t, err, source.Denied, "it has to be https")
			continue
		}
		must(t, err)
		if got := read(t, found.Store, job.FileName); got != lfsContent {
			t.Errorf("read %q", got)
		}
	}
	if got := strings.Join(lfs.given, ", "); len(plain.given) > 0 || got != "/demo.git/info/lfs/objects/batch RemoteAuth token, /team/lfs/content " {
		t.Errorf("the server got %s, that without TLS %q", got, plain.given)
	}
}
