// Package pki issues the certificates of one development cluster.
//
// It keeps certificate authorities on disk, because kubeconfigs that were
// handed out must stay valid across restarts, and issues every leaf certificate
// again at each start, so that a leaf never expires in a cluster that is
// restarted now and then. Private keys are written with mode 0600.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// authorityLifetime is long, because an authority is never rotated: a new
	// one needs a new state directory.
	authorityLifetime = 10 * 365 * 24 * time.Hour
	// leafLifetime bounds the uptime of a cluster; each start issues new
	// leaves.
	leafLifetime = 2 * 365 * 24 * time.Hour
	// clockSkew is subtracted from the start of the validity, for machines
	// whose clock is a little behind.
	clockSkew = time.Hour
)

// Authority signs leaf certificates. It is immutable and safe for concurrent
// use.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	file Pair
}

// Pair holds the paths of a certificate and its private key, both PEM.
type Pair struct {
	CertFile string
	KeyFile  string
}

// Leaf describes a certificate to issue. For client certificates Kubernetes
// takes the user from the common name and the groups from the organizations.
type Leaf struct {
	CommonName    string
	Organizations []string
	DNSNames      []string
	IPs           []net.IP
	// Server and Client set the extended key usages; a certificate is not valid
	// for the other purpose.
	Server bool
	Client bool
}

// OpenAuthority reads the authority dir/name.crt and .key, and creates it when
// one of the files does not exist. A damaged file is an error: replacing it
// would invalidate the kubeconfigs in use.
func OpenAuthority(dir, name string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	certFile, keyFile := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return newAuthority(certFile, keyFile, name)
	case err != nil:
		return nil, fmt.Errorf("read certificate authority %s: %w", certFile, err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("read certificate authority %s: its key cannot sign", certFile)
	}
	return &Authority{cert: pair.Leaf, key: key, file: Pair{CertFile: certFile, KeyFile: keyFile}}, nil
}

// newAuthority creates a self-signed authority and writes it to disk. The
// certificate is parsed back, because only then it has the subject key ID that
// leaves refer to.
func newAuthority(certFile, keyFile, name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := baseTemplate(pkix.Name{CommonName: "slipway-devcluster-" + name}, authorityLifetime)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	if err := writePair(Pair{CertFile: certFile, KeyFile: keyFile}, der, key); err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, file: Pair{CertFile: certFile, KeyFile: keyFile}}, nil
}

// File returns the path of the authority's certificate.
func (a *Authority) File() string { return a.file.CertFile }

// KeyFile returns the path of the authority's private key.
func (a *Authority) KeyFile() string { return a.file.KeyFile }

// Pool returns a new pool with the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Issue writes a new leaf certificate beside the authority, as name.crt and
// name.key, and replaces the one of an earlier start.
func (a *Authority) Issue(name string, leaf Leaf) (Pair, error) {
	dir := filepath.Dir(a.File())
	pair := Pair{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	template, err := baseTemplate(pkix.Name{CommonName: leaf.CommonName, Organization: leaf.Organizations}, leafLifetime)
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.DNSNames = leaf.DNSNames
	template.IPAddresses = leaf.IPs
	if leaf.Server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if leaf.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate %s: %w", name, err)
	}
	return pair, writePair(pair, der, key)
}

// SigningKey ensures that dir/name.key and its public half dir/name.pub exist,
// and returns their paths. Service account tokens are signed with it. If either
// file is missing, both are created again.
func SigningKey(dir, name string) (private, public string, err error) {
	private, public = filepath.Join(dir, name+".key"), filepath.Join(dir, name+".pub")
	if _, err := os.Stat(private); err == nil {
		if _, err := os.Stat(public); err == nil {
			return private, public, nil
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", "", err
	}
	if err := writeKey(private, key); err != nil {
		return "", "", err
	}
	return private, public, writePEM(public, "PUBLIC KEY", der, 0o644)
}

// baseTemplate returns the common part of all certificates. The serial number
// is random, with 127 bits, which fits the 20 bytes of RFC 5280.
func baseTemplate(subject pkix.Name, lifetime time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     now.Add(lifetime),
	}, nil
}

// writePair writes the key before the certificate: after a crash between the
// two, an authority without a certificate counts as missing.
func writePair(pair Pair, der []byte, key *ecdsa.PrivateKey) error {
	if err := writeKey(pair.KeyFile, key); err != nil {
		return err
	}
	return writePEM(pair.CertFile, "CERTIFICATE", der, 0o644)
}

// writeKey writes a private key in SEC 1 form, readable by this user only.
func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der, 0o600)
}

// writePEM writes one PEM block and replaces path atomically: a crash in
// between leaves the old file or the new one.
func writePEM(path, kind string, der []byte, mode fs.FileMode) error {
	return ReplaceFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}

// ReplaceFile writes a temporary file beside path and renames it over path, so
// that a reader never sees a partial file. The file is synced before the
// rename; the directory is not.
func ReplaceFile(path string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // no effect after the rename
	if err := errors.Join(f.Chmod(mode), writeAndSync(f, content), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// writeAndSync writes the content and flushes it to disk.
func writeAndSync(f *os.File, content []byte) error {
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}
