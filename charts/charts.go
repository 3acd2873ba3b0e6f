// Package charts embeds the runtime chart in the program. A runtime that
// manages itself as an Application then uses the exact chart of its own
// version, without a chart repository.
//
// The archive of a chart is deterministic: the same chart gives the same bytes.
package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"time"
)

// Runtime is the name of the runtime chart and of its folder.
const Runtime = "gitops-runtime"

// files includes files that begin with a dot or an underscore, such as
// .helmignore and _helpers.tpl, which need the "all:" prefix.
//
//go:embed all:gitops-runtime
var files embed.FS

// Archive returns a chart as a gzipped tar, as helm package writes it, with all
// entries below a folder of the chart's name.
func Archive(name string) ([]byte, error) {
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressed)
	err := fs.WalkDir(files, name, func(place string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(place)
		if err != nil {
			return err
		}
		// WalkDir returns entries in lexical order. With a fixed time and mode,
		// and no owner, the archive depends on the contents alone.
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Clean(place), Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(0, 0), Format: tar.FormatPAX,
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("pack the chart %s: %w", name, err)
	}
	// The tar trailer goes through gzip, so the order of the two matters.
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
