package parity

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/repo/v1"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/must"
)

// servers are a Helm repository and a registry with the same charts, on
// loopback.
type servers struct {
	*httptest.Server
	mu    sync.Mutex
	files map[string][]byte
	types map[string]string
	tags  map[string][]string // of the registry, by chart
	index *repo.IndexFile
}

// serve starts the servers without charts.
func serve(t testing.TB) *servers {
	t.Helper()
	s := &servers{files: map[string][]byte{}, types: map[string]string{}, tags: map[string][]string{}, index: repo.NewIndexFile()}
	s.Server = httptest.NewServer(http.HandlerFunc(s.respond))
	t.Cleanup(s.Close)
	return s
}

// respond serves what was published.
func (s *servers) respond(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, found := s.files[r.URL.Path]
	if !found && r.URL.Path != "/v2/" {
		http.NotFound(w, r)
		return
	}
	if media := s.types[r.URL.Path]; media != "" {
		w.Header().Set("Content-Type", media)
		w.Header().Set("Docker-Content-Digest", digest(content))
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(content)
	}
}

// digest is that of the registry.
func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// helm and oci are the addresses of the repositories.
func (s *servers) helm() string { return s.URL + "/charts" }
func (s *servers) oci() string  { return "oci://" + strings.TrimPrefix(s.URL, "http://") + "/team" }

// publish packs a chart with Helm's library and adds it to both.
func (s *servers) publish(t testing.TB, files map[string]string) {
	t.Helper()
	var buffered []*archive.BufferedFile
	for name, text := range files {
		buffered = append(buffered, &archive.BufferedFile{Name: name, Data: []byte(s.replace(text))})
	}
	loaded := must.Get(loader.LoadFiles(buffered))(t)
	packed := must.Get(chartutil.Save(loaded, t.TempDir()))(t)
	content := must.Get(os.ReadFile(packed))(t)
	config := must.Get(json.Marshal(loaded.Metadata))(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	file := filepath.Base(packed)
	must.Do(t, s.index.MustAdd(loaded.Metadata, file, "", strings.TrimPrefix(digest(content), "sha256:")))
	s.index.SortEntries()
	s.files["/charts/"+file] = content
	s.files["/charts/index.yaml"] = must.Get(yaml.Marshal(s.index))(t)
	s.push(t, loaded.Name(), loaded.Metadata.Version, config, content)
}

// push adds an artifact to the registry as helm push does.
func (s *servers) push(t testing.TB, name, version string, config, layer []byte) {
	t.Helper()
	descriptor := func(media string, content []byte) map[string]any {
		s.files["/v2/team/"+name+"/blobs/"+digest(content)] = content
		return map[string]any{"mediaType": media, "digest": digest(content), "size": len(content)}
	}
	const media = "application/vnd.oci.image.manifest.v1+json"
	manifest := must.Get(json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": media, "config": descriptor("application/vnd.cncf.helm.config.v1+json", config),
		"layers": []any{descriptor("application/vnd.cncf.helm.chart.content.v1.tar+gzip", layer)},
	}))(t)
	tag := strings.ReplaceAll(version, "+", "_")
	for _, reference := range []string{tag, digest(manifest)} {
		path := "/v2/team/" + name + "/manifests/" + reference
		s.files[path], s.types[path] = manifest, media
	}
	s.tags[name] = append(s.tags[name], tag)
	s.files["/v2/team/"+name+"/tags/list"] = must.Get(json.Marshal(map[string]any{"name": "team/" + name, "tags": s.tags[name]}))(t)
}

// replace writes the addresses into a file.
func (s *servers) replace(text string) string {
	return strings.NewReplacer("HELM", s.helm(), "OCI", s.oci()).Replace(text)
}
