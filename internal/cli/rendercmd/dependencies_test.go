package rendercmd_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
)

// packed is a chart as helm package writes it, with one object.
func packed(t *testing.T, name string) []byte {
	t.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	for path, text := range map[string]string{
		name + "/Chart.yaml":       "apiVersion: v2\nname: " + name + "\nversion: 1.2.0\n",
		name + "/templates/a.yaml": clitest.ConfigMap(name, "1"),
	} {
		must.Do(t, archive.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		must.Get(archive.Write([]byte(text)))(t)
	}
	must.Do(t, archive.Close())
	must.Do(t, compressed.Close())
	return out.Bytes()
}

// TestRenderDependencies: a chart that is not in the folder charts is fetched
// from its repository; one that needs credentials is an error with what to do.
func TestRenderDependencies(t *testing.T) {
	clitest.Clean(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/index.yaml":
			_, _ = w.Write([]byte("apiVersion: v1\nentries:\n  redis:\n  - {name: redis, version: 1.2.0, urls: [redis-1.2.0.tgz]}\n"))
		case "/redis-1.2.0.tgz":
			_, _ = w.Write(packed(t, "redis"))
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(server.Close)
	chart := func(repository string) string {
		return "apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies: [{name: redis, version: 1.x, repository: \"" + repository + "\"}]\n"
	}
	dir := writeFiles(t, map[string]string{
		"shop/Chart.yaml": chart(server.URL), "shop/templates/a.yaml": clitest.ConfigMap("shop", "1"), "private/Chart.yaml": chart(server.URL + "/private"),
		"lfs/a.yaml": "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0a", 32) + "\nsize 5\n",
	})
	if got := clitest.Run(t, "render "+dir+" --path lfs"); got.Code != 1 || !strings.Contains(got.Stderr, "lfs/a.yaml: it is a pointer of Git LFS") || !strings.Contains(got.Stderr, "git lfs pull") {
		t.Errorf("%+v", got)
	}
	if got := clitest.Run(t, "render "+dir+" --path shop -o name"); got.Code != 0 || got.Stdout != "ConfigMap redis\nConfigMap shop\n" {
		t.Errorf("%+v", got)
	}
	got := clitest.Run(t, "render "+dir+" --path private")
	if got.Code != 1 || !strings.Contains(got.Stderr, "the chart shop depends on redis 1.x") || !strings.Contains(got.Stderr, "/private") || !strings.Contains(got.Stderr, "helm dependency build") {
		t.Errorf("%+v", got)
	}
}
