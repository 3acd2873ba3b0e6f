package ingress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/pkitest"
)

// certificateLine makes what a line of a section of certificates declares:
//
//	NAME for HOST HOST            a Secret with a certificate; who meets it sees
//	                              NAME as its common name
//	NAME as COMMON for HOST       with another common name
//	NAME expired for HOST         which was valid until yesterday
//	NAME broken                   whose data is no certificate
//	NAME mixed for HOST           whose key is another's
//	NAME authority                a Secret with the authority of all of these
//	NAME client                   no Secret: a certificate that requests can show
//	NAME stranger                 the same, of an authority that nobody knows
//
// A line that ends with "in NAMESPACE" makes the Secret there.
func (c *scene) certificateLine(t *testing.T, line string) {
	t.Helper()
	line, namespace, elsewhere := strings.Cut(line, " in ")
	if !elsewhere {
		namespace = c.namespace
	}
	head, hosts, _ := strings.Cut(line, " for ")
	words := strings.Fields(head)
	name, common, kind := words[0], words[0], ""
	switch {
	case len(words) == 3 && words[1] == "as":
		common = words[2]
	case len(words) == 2:
		kind = words[1]
	case len(words) != 1:
		t.Fatalf("certificates: what is %q?", line)
	}
	names := append([]string{common}, strings.Fields(hosts)...)
	authority := c.suite.authority
	switch kind {
	case "":
		c.tlsSecret(t, namespace, name, authority.Issue(t, names...))
	case "expired":
		c.tlsSecret(t, namespace, name, expired(t, names))
	case "broken":
		c.tlsSecret(t, namespace, name, pkitest.Pair{Chain: "no certificate", Key: "no key"})
	case "mixed":
		c.tlsSecret(t, namespace, name, pkitest.Pair{Chain: authority.Issue(t, names...).Chain, Key: authority.Issue(t, names...).Key})
	case "authority":
		c.secret(t, namespace, name, "Opaque", map[string]string{"ca.crt": authority.PEM})
	case "client":
		c.clients[name] = authority.Issue(t, names...).TLS(t)
	case "stranger":
		c.clients[name] = c.suite.stranger.Issue(t, names...).TLS(t)
	default:
		t.Fatalf("certificates: what is %q?", line)
	}
}

func (c *scene) tlsSecret(t *testing.T, namespace, name string, pair pkitest.Pair) {
	t.Helper()
	c.secret(t, namespace, name, "kubernetes.io/tls", map[string]string{"tls.crt": pair.Chain, "tls.key": pair.Key})
}

func (c *scene) secret(t *testing.T, namespace, name, kind string, data map[string]string) {
	t.Helper()
	manifest := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\ntype: %s\ndata:\n", name, namespace, kind)
	for field, value := range data {
		manifest += fmt.Sprintf("  %s: %s\n", field, base64.StdEncoding.EncodeToString([]byte(value)))
	}
	c.suite.apply(t, namespace, manifest)
}

// expired is a certificate that vouches for itself and did so until yesterday.
func expired(t *testing.T, names []string) pkitest.Pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(-24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pkitest.Pair{
		Chain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		Key:   string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})),
	}
}

// clientTLS is how a request of a case connects: it takes any certificate, and
// notes which one it was shown.
func (c *scene) clientTLS(t *testing.T, q *request, shown *string) *tls.Config {
	t.Helper()
	config := &tls.Config{
		// The edge's own certificate is vouched for by nobody. Which one is shown
		// is what the case asks.
		InsecureSkipVerify: true,
		ServerName:         q.serverName,
		NextProtos:         []string{"http/1.1"},
		MaxVersion:         q.tlsVersion,
		VerifyConnection: func(state tls.ConnectionState) error {
			*shown = state.PeerCertificates[0].Subject.CommonName
			return nil
		},
	}
	if q.protocol == "h2" {
		config.NextProtos = []string{"h2"}
	}
	if q.client != "" {
		pair, known := c.clients[q.client]
		if !known {
			t.Fatalf("there is no client %s", q.client)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}
