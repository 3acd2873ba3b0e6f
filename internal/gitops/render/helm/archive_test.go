package helm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"maps"
	"slices"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// archived is a chart as it comes from a chart repository.
func archived(t *testing.T, files map[string]string) string {
	t.Helper()
	var text bytes.Buffer
	packed := gzip.NewWriter(&text)
	archive := tar.NewWriter(packed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		must.Do(t, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}))
		must.Get(archive.Write([]byte(files[name])))(t)
	}
	must.Do(t, errors.Join(archive.Close(), packed.Close()))
	return text.String()
}
