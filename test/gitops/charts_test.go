package gitops

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// chartVersion is that of the chart settings, which makes a ConfigMap.
const chartVersion = "1.2.3"

// packChart is the chart as helm package writes it.
func packChart(t *testing.T) []byte {
	t.Helper()
	return pack(t, map[string]string{
		"settings/Chart.yaml":              "apiVersion: v2\nname: settings\nversion: " + chartVersion + "\n",
		"settings/values.yaml":             "colour: grey\n",
		"settings/templates/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}-{{ .Values.colour }}\"}\n",
	})
}

// pack is an archive of files.
func pack(t *testing.T, content map[string]string) []byte {
	t.Helper()
	var chart bytes.Buffer
	compressed := gzip.NewWriter(&chart)
	packed := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(content)) {
		must.Do(t, packed.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content[name])), Typeflag: tar.TypeReg}))
		must.Get(packed.Write([]byte(content[name])))(t)
	}
	must.Do(t, packed.Close())
	must.Do(t, compressed.Close())
	return chart.Bytes()
}

// serveCharts is a Helm repository: an index and a file. It returns its address.
func serveCharts(t *testing.T, chart []byte) string {
	t.Helper()
	index := fmt.Sprintf("apiVersion: v1\nentries:\n  settings:\n  - {apiVersion: v2, name: settings, version: %s, urls: [settings.tgz]}\n", chartVersion)
	server := httptest.NewServer(pages{"/index.yaml": {content: []byte(index)}, "/settings.tgz": {content: chart}})
	t.Cleanup(server.Close)
	return server.URL
}

// serveRegistry is a registry with one chart. It returns its host.
func serveRegistry(t *testing.T, chart []byte) string {
	t.Helper()
	content := pages{}
	content.addChart("settings", chart)
	server := httptest.NewTLSServer(content)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "https://")
}

// addChart adds what is read of a chart in a registry, as the distribution
// specification has it: tags, a manifest and a blob. It returns the digest of the
// manifest.
func (p pages) addChart(name string, chart []byte) string {
	const kind = "application/vnd.oci.image.manifest.v1+json"
	manifest := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,
"config":{"mediaType":"application/vnd.cncf.helm.config.v1+json","digest":%q,"size":2},
"layers":[{"mediaType":"application/vnd.cncf.helm.chart.content.v1.tar+gzip","digest":%q,"size":%d}]}`,
		kind, digestOf([]byte("{}")), digestOf(chart), len(chart))
	base := "/v2/charts/" + name + "/"
	p[base+"tags/list"] = page{content: fmt.Appendf(nil, `{"name":"charts/%s","tags":[%q]}`, name, chartVersion)}
	p[base+"manifests/"+chartVersion] = page{content: manifest, kind: kind}
	p[base+"manifests/"+digestOf(manifest)] = page{content: manifest, kind: kind}
	p[base+"blobs/"+digestOf(chart)] = page{content: chart}
	return digestOf(manifest)
}

func digestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// page is a file of a server.
type page struct {
	content []byte
	kind    string
	// location, if it is set, is where the page redirects to.
	location string
	// declared is the digest that the server declares; without it the one of the
	// content.
	declared string
}

// pages are the files of a server by their paths.
type pages map[string]page

// ServeHTTP gives a file.
func (p pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found, ok := p[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if found.location != "" {
		http.Redirect(w, r, found.location, http.StatusTemporaryRedirect)
		return
	}
	if found.kind != "" {
		w.Header().Set("Content-Type", found.kind)
		w.Header().Set("Docker-Content-Digest", cmp.Or(found.declared, digestOf(found.content)))
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(found.content)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(found.content)
	}
}
