package nginx

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
)

// The Secret with the CA certificates of clients, and the names of client certificates: of
// that CA, of another one, and one with many parts in its name.
const (
	authoritySecret = "ca-secret"
	knownClient     = "client"
	strangeClient   = "stranger"
	namedClient     = "named"
)

// encryption has the certificates of servers and clients, and the addresses for encrypted
// connections by those for plain ones.
type encryption struct {
	authority *pkitest.Authority
	clients   map[string]tls.Certificate
	addresses map[string]string
	// dir has the certificates as files of nginx, NAME.crt and NAME.key, and ca.crt.
	dir string
}

// encrypt gives both sides an address for encrypted connections, and issues a certificate
// for each Secret of spec.tls. It returns the Secrets.
func (g *ground) encrypt(t *testing.T, ingresses []*networkingv1.Ingress) []*snapshot.SecretBody {
	t.Helper()
	authority := pkitest.NewAuthority(t)
	g.tls = &encryption{
		authority: authority, dir: t.TempDir(), addresses: map[string]string{},
		clients: map[string]tls.Certificate{
			knownClient:   authority.Sign(t, pkitest.Certificate{Subject: `#Anna "A", Müller + Söhne; <x=y>\ `}).TLS(t),
			strangeClient: pkitest.NewAuthority(t).Issue(t, "client.example").TLS(t),
			namedClient:   selfSigned(t),
		},
	}
	hosts := map[string][]string{}
	for _, ingress := range ingresses {
		for _, entry := range ingress.Spec.TLS {
			hosts[entry.SecretName] = append(hosts[entry.SecretName], entry.Hosts...)
		}
	}
	write := func(name, text string) {
		must.Do(t, os.WriteFile(filepath.Join(g.tls.dir, name), []byte(text), 0o600))
	}
	write("ca.crt", authority.PEM)
	secrets := []*snapshot.SecretBody{{Namespace: namespace, Name: authoritySecret, Data: map[string][]byte{"ca.crt": []byte(authority.PEM)}}}
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		pair := authority.Issue(t, hosts[name]...)
		write(name+".crt", pair.Chain)
		write(name+".key", pair.Key)
		secrets = append(secrets, &snapshot.SecretBody{Namespace: namespace, Name: name, Type: "kubernetes.io/tls", Data: pair.Data()})
	}
	return secrets
}

// selfSigned returns a certificate whose name has parts of known and unknown types, several
// in one place, and texts of several encodings.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	part := func(value any, numbers ...int) pkix.AttributeTypeAndValue {
		return pkix.AttributeTypeAndValue{Type: numbers, Value: value}
	}
	text := func(tag int, text string) asn1.RawValue { return asn1.RawValue{Tag: tag, Bytes: []byte(text)} }
	name := must.Get(asn1.Marshal(pkix.RDNSequence{
		{part("DE", 2, 5, 4, 6)}, {part("Köln", 2, 5, 4, 7)}, {part("org", 0, 9, 2342, 19200300, 100, 1, 25)}, {part("Acme, Inc.", 2, 5, 4, 10)},
		{part("One", 2, 5, 4, 11), part("Two", 2, 5, 4, 11)}, {part(" first and last ", 2, 5, 4, 12)}, {part("line\nend\x7f", 2, 5, 4, 13)},
		{part("unknown", 1, 2, 3, 4, 5)}, {part(text(asn1.TagT61String, "Stra\xdfe"), 2, 5, 4, 9)}, {part(text(asn1.TagBMPString, "\x20\xac\x00x"), 2, 5, 4, 42)},
		{part(text(asn1.TagIA5String, "anna@example.com"), 1, 2, 840, 113549, 1, 9, 1)}, {part("4711", 2, 5, 4, 5)}, {part("anna", 0, 9, 2342, 19200300, 100, 1, 1)},
		{part("Anna 日本", 2, 5, 4, 3)},
	}))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(7), RawSubject: name, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// clientOf returns the settings of the client of a request. It presents its certificate
// whatever authorities the server names.
func (e *encryption) clientOf(r request) *tls.Config {
	config := &tls.Config{ServerName: r.host, RootCAs: e.authority.Pool}
	if r.certificate != "" {
		presented := e.clients[r.certificate]
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &presented, nil }
	}
	return config
}

// failedHandshake reports whether a server has refused the certificate of a client. In TLS
// 1.3 the client learns of it after its first request; the alert can be lost then, because
// the server closes a connection with bytes that it has not read.
func failedHandshake(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "tls: ") || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE))
}
