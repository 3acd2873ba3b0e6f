package up

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	// unpackFolder is in the state directory. A reset keeps it: it has nothing
	// that the user has changed.
	unpackFolder = "bin"
	// maxDevcluster bounds the unpacked program, which has some 150 MB: a
	// damaged archive must not fill the disk.
	maxDevcluster = 1 << 30
)

// packedDevcluster is the name of the file of a release with the development
// cluster for this machine.
func packedDevcluster() string {
	return fmt.Sprintf("%s-%s-%s.gz", devclusterBinary, runtime.GOOS, runtime.GOARCH)
}

// unpackDevcluster unpacks the development cluster of a release into a folder and
// returns its path. The name has the checksum of the archive, so that it is
// unpacked once, and again after an update. An unpacked one of another release is
// deleted.
func unpackDevcluster(ctx context.Context, packed, dir string, ui UI) (string, error) {
	file, err := os.Open(packed)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, stoppable{ctx, file}); err != nil {
		return "", fmt.Errorf("read %s: %w", packed, err)
	}
	path := filepath.Join(dir, devclusterBinary+"-"+hex.EncodeToString(sum.Sum(nil))[:16])
	if found, ok := runnable(path); ok {
		return found, nil
	}
	ui.line("unpacking %s", packed)
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := writeUnpacked(stoppable{ctx, file}, path); err != nil {
		if ctx.Err() != nil {
			return "", errStopped
		}
		return "", fmt.Errorf("unpack %s: %w: download it again, and compare it with SHA256SUMS", packed, err)
	}
	removeOthers(dir, filepath.Base(path))
	return path, nil
}

// writeUnpacked writes the unpacked file under another name and renames it, so
// that a start that is interrupted leaves no program that is cut off.
func writeUnpacked(from io.Reader, path string) error {
	unpacked, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(path), ".unpack-*")
	if err != nil {
		return err
	}
	// After the rename there is no such file, and the error is ignored.
	defer os.Remove(next.Name())
	size, err := io.Copy(next, io.LimitReader(unpacked, maxDevcluster+1))
	if err == nil && size > maxDevcluster {
		err = fmt.Errorf("it has more than %d bytes", maxDevcluster)
	}
	if err := errors.Join(err, next.Chmod(0o755), next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), path)
}

// removeOthers deletes what earlier releases have unpacked. An error leaves a
// file that does no harm.
func removeOthers(dir, keep string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if name := entry.Name(); name != keep && (strings.HasPrefix(name, devclusterBinary+"-") || strings.HasPrefix(name, ".unpack-")) {
			_ = os.Remove(filepath.Join(dir, name))
		}
	}
}

// stoppable is a reader that ends with its context.
type stoppable struct {
	ctx  context.Context
	from io.Reader
}

// Read implements [io.Reader].
func (s stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.from.Read(p)
}
