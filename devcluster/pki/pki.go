// Package pki issues the certificates of one development cluster.
//
// It keeps certificate authorities on disk, because kubeconfigs that were
// handed out must stay valid across restarts, and issues every leaf
// certificate afresh at each start, so that a leaf never expires in a cluster
// that is restarted now and then. Private keys are written with mode 0600.
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
	authorityLifetime = 10 * 365 * 24 * time.Hour
	leafLifetime      = 2 * 365 * 24 * time.Hour
	// clockSkew lets a certificate be used on a machine whose clock is a little behind.
	clockSkew = time.Hour
)

// Authority signs leaf certificates.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	file Pair
}

// Pair names the two PEM files of a leaf certificate.
type Pair struct {
	CertFile string
	KeyFile  string
}

// Leaf says who a certificate is for.
type Leaf struct {
	CommonName    string
	Organizations []string
	DNSNames      []string
	IPs           []net.IP
	Server        bool
	Client        bool
}

// OpenAuthority reads the authority dir/name.crt and .key, and makes it when it does not exist.
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

// File is the path of the authority's certificate.
func (a *Authority) File() string { return a.file.CertFile }

// KeyFile is the path of the authority's private key.
func (a *Authority) KeyFile() string { return a.file.KeyFile }

// Pool holds the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Issue writes a fresh leaf certificate beside the authority, as name.crt and name.key.
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

// SigningKey makes sure that dir/name.key and its public half dir/name.pub exist; service account tokens are signed with it.
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

func writePair(pair Pair, der []byte, key *ecdsa.PrivateKey) error {
	if err := writeKey(pair.KeyFile, key); err != nil {
		return err
	}
	return writePEM(pair.CertFile, "CERTIFICATE", der, 0o644)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der, 0o600)
}

// writePEM replaces path as a whole: a kill in the middle leaves the old file or the new one.
func writePEM(path, kind string, der []byte, mode fs.FileMode) error {
	return ReplaceFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}

// ReplaceFile writes a file beside path and renames it over path, so that a reader never sees half of it.
func ReplaceFile(path string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename, as it should
	if err := errors.Join(f.Chmod(mode), writeAndSync(f, content), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

func writeAndSync(f *os.File, content []byte) error {
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}
