package ingress

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
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
//	NAME stranger                 the same, of an authority that no edge trusts
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
		c.tlsSecret(t, namespace, name, authority.Sign(t, pkitest.Certificate{Names: names, From: time.Now().Add(-48 * time.Hour), Until: time.Now().Add(-24 * time.Hour)}))
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

// clientTLS is how a request of a case connects: it takes any certificate, and
// notes which one it was shown.
func (c *scene) clientTLS(t *testing.T, q *request, shown *string) *tls.Config {
	t.Helper()
	config := &tls.Config{
		// The edge's own certificate is not signed by a trusted authority. Which one is shown
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
