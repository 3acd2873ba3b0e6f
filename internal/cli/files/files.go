// Package files reads and writes the files that commands are given: bounded, so
// that a wrong path cannot fill the memory, and private where they hold
// secrets.
package files

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"slipway.dev/slipway/internal/cli/exit"
)

// MaxBytes bounds a file that is read whole: CA certificates or Helm values.
// Both are far smaller, so a larger file is a wrong path.
const MaxBytes = 4 << 20

// ReadAuthorities reads CA certificates in PEM. It returns nil for an empty
// path, which callers take as the roots of the system, and an error for a file
// without any certificate: an empty pool would reject every server.
func ReadAuthorities(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	text, err := ReadBounded(path, MaxBytes)
	if err != nil {
		return nil, err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", path)
	}
	return text, nil
}

// HostAuthorities returns the CA certificates that may verify the host of a
// runtime: those of the file beside the system's, or nil for the system's
// alone. A machine without a system pool uses the file alone.
func HostAuthorities(path string) (*x509.CertPool, error) {
	text, err := ReadAuthorities(path)
	if err != nil {
		return nil, fmt.Errorf("the authorities of the host: %w", err)
	}
	if text == nil {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	pool.AppendCertsFromPEM(text)
	return pool, nil
}

// ReadBounded reads a file of at most limit bytes. A larger file is an error and
// is never truncated silently.
func ReadBounded(path string, limit int) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// One byte above the limit distinguishes a file of exactly that size from a
	// larger one.
	text, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err == nil && len(text) > limit {
		err = fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return text, err
}

// WritePrivate writes a file that only its owner can read. It writes to a
// temporary file in the same directory, syncs it, and renames it over path, so
// readers see the old content or the new, and a crash or an error of write
// leaves an existing file untouched.
func WritePrivate(path string, write func(io.Writer) error) (err error) {
	if found, err := os.Lstat(path); err == nil && !found.Mode().IsRegular() {
		return exit.UsageError{Err: fmt.Errorf("%s is there and is no file: choose another name", path)}
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
