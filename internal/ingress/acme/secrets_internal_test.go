package acme

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mholt/acmez/v3/acme"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// TestSecrets needs an API server, which is started once.
func TestSecrets(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	for name, test := range map[string]func(*testing.T, *Manager, string){
		"keep": testKeep, "not ours": testNotOurs, "sweep": testSweep, "account": testAccount, "challenges": testChallenges, "records": testRecords,
	} {
		t.Run(name, func(t *testing.T) {
			namespace := cluster.Namespace(t)
			home := *cluster.Cluster
			home.Namespace = namespace
			test(t, managerIn(&home), namespace)
		})
	}
}

func managerIn(cluster *kube.Cluster) *Manager {
	m := New(cluster, Options{Owner: "owner", Namespaces: []string{cluster.Namespace}})
	m.timing.propagation, m.timing.serveTimeout = time.Millisecond, time.Second
	return m
}

// given is a certificate of an authority, self-signed.
func given(t *testing.T, hosts ...string) *issued {
	t.Helper()
	pair := pkitest.SelfSigned(t, pkitest.Certificate{Names: hosts, Until: time.Now().Add(time.Hour)})
	return &issued{chain: []byte(pair.Chain), key: []byte(pair.Key)}
}

func leafOfChain(t *testing.T, of *issued) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(of.chain)
	return must.Get(x509.ParseCertificate(block.Bytes))(t)
}

func requestIn(namespace string, hosts ...string) certrequest.Request {
	return certrequest.Request{Resolver: "le", Hosts: hosts, Secret: snapshot.Ref{Kind: snapshot.Secret, Namespace: namespace, Name: certrequest.SecretName("le", hosts)}}
}

// testKeep: a rehearsal writes nothing, a certificate is found again, and one
// that was read before another client wrote is written even so.
func testKeep(t *testing.T, m *Manager, namespace string) {
	c := &secretStore{manager: m, resolver: Resolver{Directory: "https://one.example"}}
	wanted := requestIn(namespace, "a.example", "b.example")
	must.Do(t, c.write(t.Context(), wanted, storedCertificate{}, nil))
	if has, err := c.read(t.Context(), wanted); err != nil || has.secret != nil {
		t.Fatalf("a rehearsal left %v, %v", has.secret, err)
	}
	must.Do(t, c.write(t.Context(), wanted, storedCertificate{}, given(t, "a.example", "b.example")))
	has, err := c.read(t.Context(), wanted)
	if err != nil || has.leaf == nil || has.stale {
		t.Fatalf("it is not there: %+v, %v", has, err)
	}
	// Written with what was known before the Secret was.
	must.Do(t, c.write(t.Context(), wanted, storedCertificate{}, given(t, "a.example", "b.example")))
	if again, err := c.read(t.Context(), wanted); err != nil || again.leaf.SerialNumber.Cmp(has.leaf.SerialNumber) == 0 {
		t.Errorf("it is the old one still: %v", err)
	}
	other := &secretStore{manager: m, resolver: Resolver{Directory: "https://two.example"}}
	if has, err := other.read(t.Context(), wanted); err != nil || !has.stale {
		t.Errorf("one of another authority is as good: %v", err)
	}
	gone := requestIn("nowhere", "a.example")
	if err := c.write(t.Context(), gone, storedCertificate{}, nil); err == nil {
		t.Error("a rehearsal for a namespace that is not there succeeds")
	}
}

// testNotOurs: a Secret of another owner is not touched.
func testNotOurs(t *testing.T, m *Manager, namespace string) {
	wanted := requestIn(namespace, "a.example")
	client := m.cluster.Client.CoreV1().Secrets(namespace)
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: wanted.Secret.Name}, Data: map[string][]byte{"mine": []byte("x")}}
	must.Get(client.Create(t.Context(), foreign, metav1.CreateOptions{}))(t)
	c := &secretStore{manager: m}
	if _, err := c.read(t.Context(), wanted); !errors.Is(err, errNotOurs) {
		t.Errorf("read: %v", err)
	}
	if err := c.write(t.Context(), wanted, storedCertificate{}, given(t, "a.example")); !errors.Is(err, errNotOurs) {
		t.Errorf("write: %v", err)
	}
	m.SetRequests(nil)
	m.timing.keepUnused = 0
	for range 3 {
		must.Do(t, m.sweepCertificates(t.Context(), namespace))
	}
	if found, err := client.Get(t.Context(), foreign.Name, metav1.GetOptions{}); err != nil || string(found.Data["mine"]) != "x" || len(found.Data) != 1 {
		t.Errorf("it is %v, %v", found.Data, err)
	}
}

// testSweep: a Secret without a request is marked, kept for its time, saved by a new
// request, and deleted; the Secrets of another installation are not.
func testSweep(t *testing.T, m *Manager, namespace string) {
	client := m.cluster.Client.CoreV1().Secrets(namespace)
	another := New(m.cluster, Options{Owner: "another"})
	wanted, theirs := requestIn(namespace, "a.example"), requestIn(namespace, "b.example")
	for who, what := range map[*Manager]certrequest.Request{m: wanted, another: theirs} {
		must.Do(t, (&secretStore{manager: who}).write(t.Context(), what, storedCertificate{}, given(t, what.Hosts...)))
	}
	marked := func(of certrequest.Request) (string, bool) {
		found, err := client.Get(t.Context(), of.Secret.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return found.Annotations[unusedAnnotation], err == nil
	}
	for _, step := range []struct {
		name     string
		requests []certrequest.Request
		keep     time.Duration
		marked   bool
		there    bool
	}{
		{"requested for", []certrequest.Request{wanted}, time.Hour, false, true},
		{"not any more", nil, time.Hour, true, true},
		{"within its time", nil, time.Hour, true, true},
		{"requested for again", []certrequest.Request{wanted}, 0, false, true},
		{"and not again", nil, 0, true, true},
		{"after its time", nil, 0, false, false},
	} {
		m.SetRequests(step.requests)
		m.timing.keepUnused = step.keep
		must.Do(t, m.sweepCertificates(t.Context(), namespace))
		if since, there := marked(wanted); there != step.there || (since != "") != step.marked {
			t.Errorf("%s: there %v, marked %q", step.name, there, since)
		}
	}
	if since, there := marked(theirs); !there || since != "" {
		t.Errorf("that of another installation: there %v, marked %q", there, since)
	}
}

// testAccount: of several who make the account at a time, all have one key.
func testAccount(t *testing.T, m *Manager, _ string) {
	var making sync.WaitGroup
	keys := make([]string, 8)
	for i := range keys {
		making.Go(func() {
			_, key, err := newAuthority(m, "le", Resolver{}).loadAccount(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			keys[i] = fmt.Sprint(key.Public())
		})
	}
	making.Wait()
	for _, key := range keys {
		if key != keys[0] || key == "" {
			t.Fatalf("there are several keys: %q", keys)
		}
	}
}

// testChallenges: many who write at a time do not undo each other's, a challenge
// counts as served when it is, and what was left behind is removed.
func testChallenges(t *testing.T, m *Manager, namespace string) {
	a := &challengeSolver{manager: m, entryPoint: "web"}
	challenge := func(token string) acme.Challenge {
		return acme.Challenge{Token: token, KeyAuthorization: token + ".thumb", Identifier: acme.Identifier{Type: "dns", Value: token + ".example"}}
	}
	var posting sync.WaitGroup
	for i := range 4 {
		posting.Go(func() {
			if err := a.Present(t.Context(), challenge(fmt.Sprintf("t%d", i))); err != nil {
				t.Error(err)
			}
		})
	}
	posting.Wait()
	entries := func() map[string][]byte {
		found := must.Get(m.cluster.Client.CoreV1().Secrets(namespace).Get(t.Context(), certrequest.ChallengesSecret, metav1.GetOptions{}))(t)
		return found.Data
	}
	if rules, bad := certrequest.ChallengeRules(namespace, entries(), func(string) []route.ListenerID { return nil }); len(rules) != 4 || len(bad) > 0 {
		t.Fatalf("%d rules, and %q", len(rules), bad)
	}
	m.timing.serveTimeout = 50 * time.Millisecond
	if err := a.Wait(t.Context(), challenge("t0")); err == nil || !strings.Contains(err.Error(), "does not serve the challenge") {
		t.Errorf("an answer that nobody gives: %v", err)
	}
	m.timing.serveTimeout = time.Minute
	go m.SetServedChallenges([]string{"t0", "t1"})
	if err := a.Wait(t.Context(), challenge("t0")); err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := a.CleanUp(ended, challenge("t0")); err != nil || len(entries()) != 3 {
		t.Errorf("%d are left: %v", len(entries()), err)
	}
	m.timing.keepChallenges = 0
	if err := m.sweepChallenges(t.Context()); err != nil || len(entries()) != 0 {
		t.Errorf("%d are left: %v", len(entries()), err)
	}
}
