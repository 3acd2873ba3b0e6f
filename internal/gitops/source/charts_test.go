package source_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/secret"
)

// archive is a chart, as helm package writes it.
func archive(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	packed := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := packed.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := packed.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func chart(t testing.TB, name, version string) []byte {
	t.Helper()
	return archive(t, map[string]string{
		name + "/Chart.yaml":           "name: " + name + "\nversion: " + version + "\n",
		name + "/templates/thing.yaml": "kind: Thing\n",
	})
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// helmServer is a Helm repository: files, of which index.yaml is one.
type helmServer struct {
	*httptest.Server
	mu       sync.Mutex
	files    map[string][]byte
	user     string
	requests []string
	statuses []int
}

func serveHelm(t *testing.T) *helmServer {
	t.Helper()
	h := &helmServer{files: map[string][]byte{}}
	h.Server = httptest.NewServer(http.HandlerFunc(h.answer))
	t.Cleanup(h.Close)
	return h
}

func (h *helmServer) answer(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, r.URL.Path)
	if user, _, _ := r.BasicAuth(); user != h.user {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	content, found := h.files[r.URL.Path]
	if !found {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("ETag", `"`+digestOf(content)[:16]+`"`)
	recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
	http.ServeContent(recorder, r, "", time.Time{}, bytes.NewReader(content))
	h.statuses = append(h.statuses, recorder.status)
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

func (h *helmServer) set(path string, content []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.files[path] = content
}

func (h *helmServer) asked(path string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, request := range h.requests {
		if strings.HasPrefix(request, path) {
			n++
		}
	}
	return n
}

// publish adds versions of a chart and writes the index as helm does.
func (h *helmServer) publish(t *testing.T, name string, versions ...string) {
	t.Helper()
	var index strings.Builder
	index.WriteString("apiVersion: v1\nentries:\n  another:\n  - name: another\n    urls:\n    - another-1.0.0.tgz\n    version: 1.0.0\n  " + name + ":\n")
	for _, version := range versions {
		content := chart(t, name, version)
		h.set("/charts/"+name+"-"+version+".tgz", content)
		fmt.Fprintf(&index, "  - apiVersion: v2\n    description: |-\n      It has a line:\n      - version: 99.0.0\n    digest: %s\n    name: %s\n    urls:\n    - charts/%s-%s.tgz\n    version: %s\n", digestOf(content), name, name, version, version)
	}
	index.WriteString("generated: \"2026-01-01T00:00:00Z\"\n")
	h.set("/index.yaml", []byte(index.String()))
}

func chartAt(url, name, revision string) project.Admitted {
	return admit(v1alpha1.ApplicationSource{RepoURL: url, Chart: name, TargetRevision: revision})
}

// The versions and ranges of charts that Argo CD documents.
func TestHelmRepository(t *testing.T) {
	server := serveHelm(t)
	server.publish(t, "web", "1.2.0", "1.2.9", "1.3.0", "2.0.0-rc.1", "0.9.0")
	s := open(t)
	for revision, want := range map[string]string{
		"1.2.0": "1.2.0", "v1.2.0": "1.2.0", "1.2.*": "1.2.9", ">=1.2.0 <1.3.0": "1.2.9", "1.*": "1.3.0", "*": "1.3.0",
		"*-0": "2.0.0-rc.1", "": "1.3.0", "^0.9": "0.9.0",
	} {
		got, err := s.Resolve(t.Context(), chartAt(server.URL, "web", revision), time.Hour)
		if err != nil {
			t.Fatalf("%q: %v", revision, err)
		}
		if got.Revision != want || !got.Chart || got.Path != "" || got.Commit != nil {
			t.Errorf("%q is %+v, want %s", revision, got, want)
		}
		if text := read(t, got.Store, "Chart.yaml"); text != "name: web\nversion: "+want+"\n" {
			t.Errorf("%q: Chart.yaml is %q", revision, text)
		}
	}
	if n := server.asked("/index.yaml"); n != 1 {
		t.Errorf("the index was asked for %d times", n)
	}
	if n := server.asked("/charts/web-1.2.9.tgz"); n != 1 {
		t.Errorf("a chart was asked for %d times", n)
	}
	_, err := s.Resolve(t.Context(), chartAt(server.URL, "web", "7.0.0"), time.Hour)
	wantError(t, err, source.NotFound, "7.0.0", "2.0.0-rc.1")
	_, err = s.Resolve(t.Context(), chartAt(server.URL, "web", ">7"), time.Hour)
	wantError(t, err, source.NotFound, "range")
	_, err = s.Resolve(t.Context(), chartAt(server.URL, "nothing", "1.0.0"), time.Hour)
	wantError(t, err, source.NotFound, "nothing")
	_, err = s.Resolve(t.Context(), chartAt(server.URL, "../web", "1.0.0"), time.Hour)
	wantError(t, err, source.Invalid)
	_, err = s.Resolve(t.Context(), chartAt(server.URL, "web", "latest?"), time.Hour)
	wantError(t, err, source.Invalid)
}

func TestHelmIndexIsAskedForChanges(t *testing.T) {
	server := serveHelm(t)
	server.publish(t, "web", "1.0.0")
	s := open(t)
	resolveChart := func(maxAge time.Duration) string {
		t.Helper()
		got, err := s.Resolve(t.Context(), chartAt(server.URL, "web", "*"), maxAge)
		must(t, err)
		return got.Revision
	}
	resolveChart(0)
	resolveChart(0)
	if statuses := server.statuses; !slices.Equal(statuses, []int{200, 200, 304}) {
		t.Errorf("statuses are %v", statuses)
	}
	server.publish(t, "web", "1.0.0", "1.1.0")
	if got := resolveChart(time.Hour); got != "1.0.0" {
		t.Errorf("got %s", got)
	}
	s.Forget(server.URL)
	if got := resolveChart(time.Hour); got != "1.1.0" {
		t.Errorf("got %s", got)
	}
	// What is no index does not replace the last one.
	server.set("/index.yaml", []byte("<html>sign in</html>"))
	_, err := s.Resolve(t.Context(), chartAt(server.URL, "web", "*"), 0)
	wantError(t, err, source.Unreachable, "index")
	if got := resolveChart(time.Hour); got != "1.1.0" {
		t.Errorf("got %s", got)
	}
}

func TestHelmChartsAreChecked(t *testing.T) {
	server := serveHelm(t)
	server.publish(t, "web", "1.0.0")
	server.set("/charts/web-1.0.0.tgz", chart(t, "web", "6.6.6"))
	_, err := open(t).Resolve(t.Context(), chartAt(server.URL, "web", "1.0.0"), 0)
	wantError(t, err, source.Refused, "digest")

	server.publish(t, "web", "1.0.0")
	_, err = open(t, func(o *source.Options) { o.Limits.ChartBytes = 50 }).Resolve(t.Context(), chartAt(server.URL, "web", "1.0.0"), 0)
	wantError(t, err, source.Refused, "50 bytes")
	_, err = open(t, func(o *source.Options) { o.Limits.IndexBytes = 50 }).Resolve(t.Context(), chartAt(server.URL, "web", "1.0.0"), 0)
	wantError(t, err, source.Refused, "50 bytes")

	evil := archive(t, map[string]string{"web/../../etc/passwd": "x"})
	server.set("/charts/web-1.0.0.tgz", evil)
	server.set("/index.yaml", fmt.Appendf(nil, "entries:\n  web:\n  - urls: [charts/web-1.0.0.tgz]\n    version: 1.0.0\n    digest: %s\n", digestOf(evil)))
	_, err = open(t).Resolve(t.Context(), chartAt(server.URL, "web", "1.0.0"), 0)
	wantError(t, err, source.Refused, "leaves the archive")
}

// The index may point to another host, which does not get the credential.
func TestHelmCredentials(t *testing.T) {
	server, other := serveHelm(t), serveHelm(t)
	server.publish(t, "web", "1.0.0")
	content := chart(t, "web", "1.0.0")
	other.set("/web.tgz", content)
	server.set("/index.yaml", fmt.Appendf(nil, "entries:\n  web:\n  - urls:\n    - %s/web.tgz\n    version: 1.0.0\n", other.URL))
	server.user = "ada"
	c := credential.Credential{URL: server.URL, Kind: credential.Helm, Username: "ada", Password: secret.New(password)}
	got, err := open(t, with(c)).Resolve(t.Context(), chartAt(server.URL, "web", "1.0.0"), 0)
	must(t, err)
	if read(t, got.Store, "templates/thing.yaml") != "kind: Thing\n" {
		t.Error("another content")
	}
	_, err = open(t).Resolve(t.Context(), chartAt(server.URL, "web", "1.0.0"), 0)
	wantError(t, err, source.Denied, "Secret")
}

// A damaged archive on the disk is fetched again; it is no property of the
// chart, and must not be refused.
func TestDamagedArchiveIsFetchedAgain(t *testing.T) {
	for name, damage := range map[string]func(path string, content []byte) error{
		"cut off": func(path string, content []byte) error { return os.WriteFile(path, content[:len(content)/2], 0o600) },
		"empty":   func(path string, _ []byte) error { return os.Truncate(path, 0) },
		"longer":  func(path string, content []byte) error { return os.WriteFile(path, append(content, 'x'), 0o600) },
		"other bytes": func(path string, content []byte) error {
			return os.WriteFile(path, bytes.Repeat([]byte("x"), len(content)), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := serveHelm(t)
			server.publish(t, "web", "1.0.0")
			folder := t.TempDir()
			here := func(o *source.Options) { o.Folder = folder }
			s := open(t, here)
			_, err := s.Resolve(t.Context(), chartAt(server.URL, "web", "1.0.0"), time.Hour)
			must(t, err)
			must(t, s.Close())
			kept := glob(t, folder, "charts/*.tgz")
			if len(kept) != 1 {
				t.Fatalf("kept are %q", kept)
			}
			content, err := os.ReadFile(kept[0])
			must(t, err)
			must(t, damage(kept[0], content))
			got, err := open(t, here).Resolve(t.Context(), chartAt(server.URL, "web", "1.0.0"), time.Hour)
			must(t, err)
			if read(t, got.Store, "templates/thing.yaml") != "kind: Thing\n" {
				t.Error("another content")
			}
		})
	}
}

// An index that is gone from the disk is fetched again, and one that is refused
// is not, until it is too old.
func TestHelmIndexOnDisk(t *testing.T) {
	server := serveHelm(t)
	server.publish(t, "web", "1.0.0", "1.1.0")
	folder := t.TempDir()
	s := open(t, func(o *source.Options) { o.Folder = folder })
	for i, revision := range []string{"1.0.0", "1.1.0"} {
		if _, err := s.Resolve(t.Context(), chartAt(server.URL, "web", revision), time.Hour); err != nil {
			t.Fatal(err)
		}
		if n := server.asked("/index.yaml"); n != 1 {
			t.Errorf("after %d charts the index was asked for %d times", i+1, n)
		}
	}
	kept := glob(t, folder, "charts/*.index")
	if len(kept) != 1 || len(glob(t, folder, "charts/*")) != 3 {
		t.Fatalf("on the disk are %q", glob(t, folder, "charts/*"))
	}
	// Another chart needs the file: what was read of it is kept for one chart.
	must(t, os.Remove(kept[0]))
	_, err := s.Resolve(t.Context(), chartAt(server.URL, "another", "9"), time.Hour)
	wantError(t, err, source.NotFound, "highest of 1 is 1.0.0")
	if n := server.asked("/index.yaml"); n != 2 {
		t.Errorf("the index was asked for %d times", n)
	}
	must(t, os.WriteFile(kept[0], []byte(`"third" [`), 0o600))
	_, err = s.Resolve(t.Context(), chartAt(server.URL, "third", "1"), time.Hour)
	wantError(t, err, source.NotFound, "no chart")
	if n := server.asked("/index.yaml"); n != 3 {
		t.Errorf("the index was asked for %d times", n)
	}

	strict := open(t, func(o *source.Options) { o.Limits.IndexBytes = 50 })
	for range 2 {
		_, err = strict.Resolve(t.Context(), chartAt(server.URL, "web", "1.0.0"), time.Hour)
		wantError(t, err, source.Refused, "sources.indexLimit")
	}
	if n := server.asked("/index.yaml"); n != 4 {
		t.Errorf("a refused index was asked for %d times", n-3)
	}
	_, err = strict.Resolve(t.Context(), chartAt(server.URL, "web", "1.0.0"), 0)
	wantError(t, err, source.Refused, "sources.indexLimit")
	if n := server.asked("/index.yaml"); n != 5 {
		t.Errorf("a refused index was asked for %d times after it is too old", n-4)
	}
}

// Indexes count like charts, and the ones that were not used for longest go.
func TestIndexCacheIsBounded(t *testing.T) {
	folder := t.TempDir()
	s := open(t, func(o *source.Options) { o.Folder, o.Limits.ProjectBytes = folder, 3*64<<10 })
	for range 10 {
		server := serveHelm(t)
		server.set("/index.yaml", []byte("entries:\n  web:\n"+strings.Repeat("  - version: 1.0.0\n    urls: [web.tgz]\n", 50)))
		_, err := s.Resolve(t.Context(), chartAt(server.URL, "web", "2.0.0"), time.Hour)
		wantError(t, err, source.NotFound)
	}
	// There is room for three, of which one is needed while the next is received.
	if kept := glob(t, folder, "charts/*"); len(kept) < 2 || len(kept) > 3 {
		t.Errorf("kept are %q", kept)
	}
}

// The cache on the disk has a limit.
func TestChartCacheIsBounded(t *testing.T) {
	server := serveHelm(t)
	versions := []string{"1.0.0", "1.0.1", "1.0.2", "1.0.3", "1.0.4"}
	server.publish(t, "web", versions...)
	folder := t.TempDir()
	s := open(t, func(o *source.Options) { o.Folder, o.Limits.ProjectBytes = folder, 3*64<<10 })
	for _, version := range versions {
		_, err := s.Resolve(t.Context(), chartAt(server.URL, "web", version), time.Hour)
		must(t, err)
	}
	// The index is one of three.
	if kept := glob(t, folder, "charts/*.tgz"); len(kept) != 2 {
		t.Errorf("kept are %q", kept)
	}
}

// An archive whose server does not respond is requested again after a backoff. A caller
// that wants the newest state does not wait for that, and ends it.
func TestArchiveBackoff(t *testing.T) {
	var requests, status atomic.Int64
	status.Store(http.StatusServiceUnavailable)
	content := chart(t, "web", "1.0.0")
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write(content)
	}))
	t.Cleanup(away.Close)
	server := serveHelm(t)
	server.set("/index.yaml", fmt.Appendf(nil, "entries:\n  web:\n  - {name: web, version: 1.0.0, urls: [%q]}\n", away.URL+"/web.tgz"))
	s := open(t)
	resolve := func(maxAge time.Duration) error {
		_, err := s.Resolve(t.Context(), chartAt(server.URL, "web", "1.0.0"), maxAge)
		return err
	}
	for range 3 {
		wantError(t, resolve(time.Hour), source.Unreachable, "503")
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests during the backoff, want the first alone", n)
	}
	wantError(t, resolve(0), source.Unreachable, "503")
	status.Store(http.StatusOK)
	must(t, resolve(0))
	must(t, resolve(time.Hour))
	if n := requests.Load(); n != 4 {
		t.Errorf("%d requests, want one for each call without a backoff", n)
	}
}
