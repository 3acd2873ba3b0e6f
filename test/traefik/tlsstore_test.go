package traefik

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// TestTLSStore: the store of the edge's own namespace has the certificates of names without
// another one. Those of other namespaces change nothing.
func TestTLSStore(t *testing.T) {
	s := newScene(t)
	authority := pkitest.NewAuthority(t)
	secret := func(name string, hosts ...string) string {
		pair := authority.Issue(t, hosts...)
		encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
		return fmt.Sprintf(tlsSecret, name, encode(pair.Chain), encode(pair.Key))
	}
	s.Apply(t, s.namespace, secret("own", "own.example.com")+secret("stolen", "stolen.example.com", "shared.example.com")+
		tlsRoute+strings.ReplaceAll(store, "central", "stolen"))
	s.Apply(t, home, secret("central", "central.example.com")+secret("shared", "*.example.com", "own.example.com")+store)
	for name, want := range map[string]string{
		"unknown.example.org": "central.example.com", // the default certificate
		"shared.example.com":  "*.example.com",       // no route has a certificate for it
		"own.example.com":     "own.example.com",
	} {
		s.expectCertificate(t, authority, name, want)
	}
	programs.Eventually(t, func(ctx context.Context) error {
		events, err := s.Client.EventsV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Regarding.Kind == "TLSStore" && strings.Contains(event.Note, "providers.kubernetesCRD.tlsStoreNamespace") {
				return nil
			}
		}
		return fmt.Errorf("no Event is about the TLSStore among %d", len(events.Items))
	})
	resource := s.Dynamic.Resource(schema.GroupVersionResource{Group: "traefik.io", Version: "v1alpha1", Resource: "tlsstores"})
	must.Do(t, resource.Namespace(home).Delete(t.Context(), "default", metav1.DeleteOptions{}))
	for _, name := range []string{"unknown.example.org", "shared.example.com"} {
		s.expectCertificate(t, authority, name, "")
	}
	s.expectCertificate(t, authority, "own.example.com", "own.example.com")
}

// expectCertificate waits until clients of a name are shown the certificate with a name;
// empty for one of another authority, which is the edge's own.
func (s *scene) expectCertificate(t *testing.T, authority *pkitest.Authority, name, want string) {
	t.Helper()
	programs.Eventually(t, func(context.Context) error {
		conn, err := tls.Dial("tcp", s.seat.On(edgeprocess.TLSPort), &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err != nil {
			return err
		}
		defer conn.Close()
		shown := conn.ConnectionState().PeerCertificates[0]
		ours := shown.CheckSignatureFrom(must.Get(pkitest.Pair{Chain: authority.PEM}.Leaf())(t)) == nil
		if ours != (want != "") || want != "" && shown.DNSNames[0] != want {
			return fmt.Errorf("%s has the certificate of %v, want %q", name, shown.DNSNames, want)
		}
		return nil
	})
}

const tlsSecret = `apiVersion: v1
kind: Secret
metadata: {name: %s}
type: kubernetes.io/tls
data: {tls.crt: %s, tls.key: %s}
---
`

const store = `apiVersion: traefik.io/v1alpha1
kind: TLSStore
metadata: {name: default}
spec: {defaultCertificate: {secretName: central}, certificates: [{secretName: shared}]}
`

const tlsRoute = `apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: own}
spec: {routes: [{match: "Host(` + "`own.example.com`" + `)", services: [{name: a, port: 80}]}], tls: {secretName: own}}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: shared}
spec: {routes: [{match: "Host(` + "`shared.example.com`" + `)", services: [{name: a, port: 80}]}], tls: {}}
---
`
