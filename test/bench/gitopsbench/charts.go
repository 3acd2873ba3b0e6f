package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"path"
)

// chartsPath is where the server has its Helm repository.
const chartsPath = "/charts"

// chartServer has the files of a Helm repository, by name.
type chartServer map[string][]byte

// newChartServer publishes the charts that umbrella charts depend on: one with the
// objects, and a library.
func newChartServer() (chartServer, error) {
	server, index := chartServer{}, "apiVersion: v1\nentries:\n"
	for _, chart := range []struct {
		name  string
		files map[string]string
	}{
		{"common", map[string]string{"Chart.yaml": "apiVersion: v2\nname: common\nversion: 1.0.0\ntype: library\n", "templates/_name.tpl": "{{ define `common.name` }}{{ .Release.Name }}{{ end }}\n"}},
		{"web", map[string]string{"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n", "templates/objects.yaml": write("{{ include `common.name` . }}", "{{ .Values.revision }}")}},
	} {
		packed, err := pack(chart.name, chart.files)
		if err != nil {
			return nil, err
		}
		file := chart.name + "-1.0.0.tgz"
		server[file] = packed
		index += fmt.Sprintf("  %s:\n  - {apiVersion: v2, name: %[1]s, version: 1.0.0, digest: %x, urls: [%s]}\n", chart.name, sha256.Sum256(packed), file)
	}
	server["index.yaml"] = []byte(index)
	return server, nil
}

// ServeHTTP serves a file.
func (s chartServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, found := s[path.Base(r.URL.Path)]
	if !found {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(content)
}

// pack makes the archive of a chart.
func pack(name string, files map[string]string) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	for file, text := range files {
		if err := archive.WriteHeader(&tar.Header{Name: name + "/" + file, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
