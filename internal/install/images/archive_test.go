package images_test

import (
	"archive/tar"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// pack writes a folder into a tar archive.
func pack(t testing.TB, folder, archive string) {
	t.Helper()
	file, err := os.Create(archive)
	must.Do(t, err)
	writer := tar.NewWriter(file)
	err = filepath.WalkDir(folder, func(place string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(place)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, place)
		if err != nil {
			return err
		}
		if err := writer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(text))}); err != nil {
			return err
		}
		_, err = writer.Write(text)
		return err
	})
	must.Do(t, err)
	must.Do(t, writer.Close())
	must.Do(t, file.Close())
}
