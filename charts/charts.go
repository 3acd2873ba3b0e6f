// Package charts has the charts in the program, so that a runtime that becomes an
// Application of itself brings the very chart of its version.
//
// It promises that the same chart gives the same archive, byte by byte.
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

// Runtime is the chart of the runtime.
const Runtime = "gitops-runtime"

//go:embed all:gitops-runtime
var files embed.FS

// Archive is a chart as Helm packs it.
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
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
