package charts_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/charts"
	"slipway.dev/slipway/internal/must"
)

// The archive has every file of the chart below its name, hidden ones too, and is
// always the same.
func TestArchive(t *testing.T) {
	first := must.Get(charts.Archive(charts.Runtime))(t)
	if second, err := charts.Archive(charts.Runtime); err != nil || !bytes.Equal(first, second) {
		t.Errorf("the second archive is another one: %v", err)
	}
	unpacked := must.Get(gzip.NewReader(bytes.NewReader(first)))(t)
	var names []string
	for files := tar.NewReader(unpacked); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.Do(t, err)
		if !strings.HasPrefix(header.Name, charts.Runtime+"/") || header.Size == 0 {
			t.Errorf("%s has %d bytes", header.Name, header.Size)
		}
		names = append(names, header.Name)
	}
	for _, want := range []string{"Chart.yaml", "values.yaml", "values.schema.json", "templates/_names.tpl", "templates/agent.yaml"} {
		if !slices.Contains(names, charts.Runtime+"/"+want) {
			t.Errorf("%s is missing in %v", want, names)
		}
	}
	if _, err := charts.Archive("other"); err == nil {
		t.Error("there is an archive of a chart that is not there")
	}
}
