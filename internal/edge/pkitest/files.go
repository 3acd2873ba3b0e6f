package pkitest

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
)

// Files is a self-signed authority on disk that is also the certificate of
// servers on this machine.
type Files struct {
	// CertFile and KeyFile contain the certificate and its key as PEM. Clients
	// trust CertFile.
	CertFile, KeyFile string
	// Cert and Key are the contents of the files, and Roots a pool with Cert.
	Cert, Key []byte
	Roots     *x509.CertPool
}

// NewFiles creates a certificate for 127.0.0.1, localhost and names, in a
// temporary folder of the test.
func NewFiles(t testing.TB, names ...string) *Files {
	t.Helper()
	pair := SelfSigned(t, Certificate{
		Names: append([]string{"127.0.0.1", "localhost"}, names...), Subject: "slipway test", Until: time.Now().AddDate(0, 3, 0), Authority: true,
	})
	dir := t.TempDir()
	made := &Files{
		CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"),
		Cert: []byte(pair.Chain), Key: []byte(pair.Key), Roots: pair.Pool(),
	}
	must.Do(t, errors.Join(os.WriteFile(made.CertFile, made.Cert, 0o600), os.WriteFile(made.KeyFile, made.Key, 0o600)))
	return made
}
