package source_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/secret"
)

func glob(t *testing.T, folder, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	must(t, err)
	return found
}

const chartLayer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

// ociServer is the part of a registry that is read from: tags, manifests and
// blobs, as the distribution specification has them.
type ociServer struct {
	*httptest.Server
	mu       sync.Mutex
	content  map[string][]byte // by path
	types    map[string]string
	tags     []string
	user     string
	requests []string
	// holdBlob, if it is set, is called before a blob is sent.
	holdBlob func()
}

func serveOCI(t *testing.T) *ociServer {
	t.Helper()
	o := &ociServer{content: map[string][]byte{}, types: map[string]string{}}
	o.Server = httptest.NewTLSServer(http.HandlerFunc(o.answer))
	t.Cleanup(o.Close)
	return o
}

func (o *ociServer) answer(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if hold := o.holdBlob; hold != nil && strings.Contains(r.URL.Path, "/blobs/") {
		o.holdBlob = nil
		o.mu.Unlock()
		hold()
		o.mu.Lock()
	}
	o.requests = append(o.requests, r.Method+" "+r.URL.Path)
	if user, _, _ := r.BasicAuth(); user != o.user {
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/tags/list") {
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "x", "tags": o.tags})
		return
	}
	content, found := o.content[r.URL.Path]
	if !found {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", o.types[r.URL.Path])
	if strings.Contains(r.URL.Path, "/manifests/") {
		w.Header().Set("Docker-Content-Digest", "sha256:"+digestOf(content))
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	_, _ = w.Write(content)
}

// push adds an artifact of one layer.
func (o *ociServer) push(repository, tag, mediaType string, layer []byte) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	manifest := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
"config":{"mediaType":"application/vnd.cncf.helm.config.v1+json","digest":"sha256:%s","size":2},
"layers":[{"mediaType":%q,"digest":"sha256:%s","size":%d}]}`, digestOf([]byte("{}")), mediaType, digestOf(layer), len(layer))
	digest := "sha256:" + digestOf(manifest)
	for _, name := range []string{tag, digest} {
		path := "/v2/" + repository + "/manifests/" + name
		o.content[path], o.types[path] = manifest, "application/vnd.oci.image.manifest.v1+json"
	}
	o.content["/v2/"+repository+"/blobs/sha256:"+digestOf(layer)] = layer
	o.tags = append(o.tags, tag)
	return digest
}

func (o *ociServer) asked(part string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return count(o.requests, part)
}

// host is the address without a scheme.
func (o *ociServer) host() string { return strings.TrimPrefix(o.URL, "https://") }

func (o *ociServer) trust(b *credential.Store) {
	b.SetCertificateAuthorities(map[string]string{"127.0.0.1": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: o.Certificate().Raw}))})
}

func TestOCICharts(t *testing.T) {
	server := serveOCI(t)
	server.user = "ada"
	for _, version := range []string{"1.0.0", "1.1.0", "1.1.1_build.5", "2.0.0-rc.1"} {
		server.push("team/web", version, chartLayer, chart(t, "web", version))
	}
	c := credential.Credential{URL: server.host() + "/team", Kind: credential.Helm, EnableOCI: true, Username: "ada", Password: secret.New(password)}
	s := open(t, with(c, server.trust))
	for _, tt := range []struct {
		source project.Admitted
		want   string
	}{
		{chartAt(server.host()+"/team", "web", "1.0.0"), "1.0.0"},
		{chartAt("oci://"+server.host()+"/team", "web", "1.0.x"), "1.0.0"},
		{chartAt(server.host()+"/team", "web", "1.*"), "1.1.1+build.5"},
		{chartAt(server.host()+"/team", "web", "1.1.1+build.5"), "1.1.1+build.5"},
		{chartAt(server.host()+"/team", "web", "*-0"), "2.0.0-rc.1"},
	} {
		got, err := s.Resolve(t.Context(), tt.source, time.Hour)
		if err != nil {
			t.Fatalf("%+v: %v", tt.source.Source(), err)
		}
		if got.Revision != tt.want || !got.Chart || !strings.HasPrefix(read(t, got.Store, "Chart.yaml"), "name: web\n") {
			t.Errorf("%s of %s is %s, want %s", tt.source.Source().TargetRevision, tt.source.Address(), got.Revision, tt.want)
		}
	}
	if server.asked("/tags/list") > 2 || server.asked("/blobs/") != 3 {
		t.Errorf("requests are %q", server.requests)
	}
	_, err := s.Resolve(t.Context(), chartAt(server.host()+"/team", "web", "9.9.9"), time.Hour)
	wantError(t, err, source.NotFound, "revision")
	_, err = s.Resolve(t.Context(), chartAt(server.host()+"/team", "web", ">=9"), time.Hour)
	wantError(t, err, source.NotFound, "range")
	server.user = "bob"
	_, err = s.Resolve(t.Context(), chartAt(server.host()+"/team", "web", "1.0.0"), 0)
	wantError(t, err, source.Denied)
	hidden(t, "registry", err)
}

// Argo CD's OCI sources that are not charts: one layer with files, and a path.
func TestOCIFiles(t *testing.T) {
	server := serveOCI(t)
	layer := archive(t, map[string]string{"apps/a/one.yaml": "a: 1\n"})
	digest := server.push("team/config", "latest", "application/vnd.oci.image.layer.v1.tar+gzip", layer)
	address := "oci://" + server.host() + "/team/config"
	s := open(t, with(credential.Credential{URL: address}, server.trust))
	wanted := v1alpha1.ApplicationSource{RepoURL: address, TargetRevision: "latest", Path: "apps/a"}
	got, err := s.Resolve(t.Context(), admit(wanted), 0)
	must(t, err)
	if got.Revision != digest || got.Chart || got.Path != "apps/a" || read(t, got.Store, "apps/a/one.yaml") != "a: 1\n" {
		t.Errorf("got %+v", got)
	}
	// A digest that is cached needs no request; a tag may move.
	asked := len(server.requests)
	wanted.TargetRevision = digest
	for range 2 {
		_, err = s.Resolve(t.Context(), admit(wanted), 0)
		must(t, err)
	}
	if more := server.requests[asked:]; len(more) > 1 {
		t.Errorf("asked %q", more)
	}
	moved := server.push("team/config", "latest", "application/vnd.oci.image.layer.v1.tar+gzip", archive(t, map[string]string{"x": "y"}))
	wanted.TargetRevision = "latest"
	if got, err = s.Resolve(t.Context(), admit(wanted), 0); err != nil || got.Revision != moved {
		t.Errorf("got %+v, %v", got, err)
	}
}

// What was under way when a tag was forgotten is not kept: it may be old.
func TestOCIForgetInFlight(t *testing.T) {
	server := serveOCI(t)
	const kind = "application/vnd.oci.image.layer.v1.tar+gzip"
	old := server.push("team/config", "latest", kind, archive(t, map[string]string{"x": "old"}))
	address := "oci://" + server.host() + "/team/config"
	s := open(t, with(credential.Credential{URL: address}, server.trust))
	wanted := admit(v1alpha1.ApplicationSource{RepoURL: address, TargetRevision: "latest"})
	var moved string
	server.holdBlob = func() {
		moved = server.push("team/config", "latest", kind, archive(t, map[string]string{"x": "new"}))
		s.Forget(address)
	}
	got, err := s.Resolve(t.Context(), wanted, time.Hour)
	must(t, err)
	if got.Revision != old {
		t.Errorf("the request under way gives %s", got.Revision)
	}
	if got, err = s.Resolve(t.Context(), wanted, time.Hour); err != nil || got.Revision != moved {
		t.Errorf("got %+v, %v, want %s", got, err, moved)
	}
}

func TestOCIRefusals(t *testing.T) {
	server := serveOCI(t)
	address := "oci://" + server.host() + "/team/web"
	trusted := with(credential.Credential{URL: address}, server.trust)
	server.push("team/web", "image", "application/vnd.example+json", []byte("{}"))
	_, err := open(t, trusted).Resolve(t.Context(), admit(v1alpha1.ApplicationSource{RepoURL: address, TargetRevision: "image"}), 0)
	wantError(t, err, source.Invalid, "exactly one")

	layer := chart(t, "web", "1.0.0")
	server.push("team/web", "1.0.0", chartLayer, layer)
	path := "/v2/team/web/blobs/sha256:" + digestOf(layer)
	server.content[path] = slices.Concat(layer[:len(layer)-1], []byte("x"))
	_, err = open(t, trusted).Resolve(t.Context(), admit(v1alpha1.ApplicationSource{RepoURL: address, TargetRevision: "1.0.0"}), 0)
	wantError(t, err, source.Refused, "digest")
	server.content[path] = layer
	small := func(o *source.Options) { o.Limits.ChartBytes = 50 }
	_, err = open(t, trusted, small).Resolve(t.Context(), admit(v1alpha1.ApplicationSource{RepoURL: address, TargetRevision: "1.0.0"}), 0)
	wantError(t, err, source.Refused, "limit")
	for _, bad := range []string{"oci://", "oci:///x", "oci://user@host/x/y", "oci://example.com/UPPER"} {
		_, err = open(t).Resolve(t.Context(), admit(v1alpha1.ApplicationSource{RepoURL: bad, TargetRevision: "1.0.0"}), 0)
		wantError(t, err, source.Invalid)
	}
	server.Close()
	_, err = open(t, trusted).Resolve(t.Context(), admit(v1alpha1.ApplicationSource{RepoURL: address, TargetRevision: "1.0.0"}), 0)
	wantError(t, err, source.Unreachable)
}
