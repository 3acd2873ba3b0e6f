package status

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/programs"
)

var (
	sound       = engine.Condition{}
	refusedNow  = engine.Condition{Refused: true}
	incomplete  = engine.Condition{Incomplete: true}
	uncertified = engine.Condition{CertificateNotReady: true}
	unanswered  = engine.Condition{NoEndpoints: true}
)

// frontService is a published Service with the ports of HTTP and HTTPS.
func frontService(kind corev1.ServiceType, plain, encrypted int32) *corev1.Service {
	return &corev1.Service{Spec: corev1.ServiceSpec{Type: kind, ExternalIPs: []string{"192.0.2.1"}, Ports: []corev1.ServicePort{
		{Port: 80, NodePort: plain, Protocol: corev1.ProtocolTCP}, {Port: 443, NodePort: encrypted, Protocol: corev1.ProtocolTCP},
		{Port: 443, NodePort: encrypted, Protocol: corev1.ProtocolUDP},
	}}}
}

// TestErrorsAtPorts: which port has which error. A port has one, the worst, and
// a certificate is nothing to the plain port.
func TestErrorsAtPorts(t *testing.T) {
	given := published{addresses: canonical([]addressEntry{{IP: "192.0.2.1"}, {Hostname: "lb.example"}}), plain: plainPort}
	service := addressesOf(&Options{PublishedService: "a/b"}, frontService(corev1.ServiceTypeClusterIP, 0, 0), nil)
	node := addressesOf(&Options{PublishedService: "a/b"}, frontService(corev1.ServiceTypeNodePort, 30080, 30443), []*snapshot.NodeFacts{{Ready: true, External: addressOf("192.0.2.1")}})
	broken := "cloud.example/Quota"
	cloud := published{addresses: []addressEntry{{IP: "192.0.2.1", Ports: []portEntry{{Port: 80, Protocol: protocolTCP, Error: &broken}, {Port: 443, Protocol: protocolTCP}}}}, plain: plainPort}
	single := published{addresses: []addressEntry{{IP: "192.0.2.1", Ports: []portEntry{{Port: 80, Protocol: protocolTCP}}}}, plain: plainPort}
	for _, test := range []struct {
		name      string
		where     published
		condition engine.Condition
		want      string
	}{
		{"nothing", given, sound, "lb.example, 192.0.2.1"},
		{"refused", given, engine.Condition{Refused: true, CertificateNotReady: true, NoEndpoints: true},
			"lb.example 80/TCP Refused 443/TCP Refused, 192.0.2.1 80/TCP Refused 443/TCP Refused"},
		{"incomplete", given, incomplete, "lb.example 80/TCP Refused 443/TCP Refused, 192.0.2.1 80/TCP Refused 443/TCP Refused"},
		{"two", given, engine.Condition{CertificateNotReady: true, NoEndpoints: true},
			"lb.example 80/TCP NoEndpoints 443/TCP CertificateNotReady, 192.0.2.1 80/TCP NoEndpoints 443/TCP CertificateNotReady"},
		{"certificate", given, uncertified, "lb.example 443/TCP CertificateNotReady, 192.0.2.1 443/TCP CertificateNotReady"},
		{"encrypted only", given, engine.Condition{NoEndpoints: true, EncryptedOnly: true}, "lb.example 443/TCP NoEndpoints, 192.0.2.1 443/TCP NoEndpoints"},
		{"ports of a Service", service, uncertified, "192.0.2.1 80/TCP 443/TCP CertificateNotReady 443/UDP CertificateNotReady"},
		{"ports of a Service, all", service, unanswered, "192.0.2.1 80/TCP NoEndpoints 443/TCP NoEndpoints 443/UDP NoEndpoints"},
		{"ports of nodes", node, uncertified, "192.0.2.1 30080/TCP 30443/TCP CertificateNotReady 30443/UDP CertificateNotReady"},
		{"an error of the cloud", cloud, unanswered, "192.0.2.1 80/TCP cloud.example/Quota 443/TCP NoEndpoints"},
		{"no other port", single, uncertified, "192.0.2.1 80/TCP CertificateNotReady"},
	} {
		known := &statusRecord{ours: true}
		known.observe(test.condition, time.Now())
		found := known.decide(time.Now().Add(time.Hour))
		got := test.where.withErrors(found.errors)
		if text := strings.ReplaceAll(show(got), errorPrefix, ""); text != test.want {
			t.Errorf("%s: got %s, want %s", test.name, text, test.want)
		}
		// A later reader recognises it as ours, and takes no other for it.
		if !sameWithoutErrors(canonical(got), test.where.addresses) || sameWithoutErrors(canonical(got), []addressEntry{{IP: "192.0.2.99"}}) || sameWithoutErrors(canonical(got), nil) {
			t.Errorf("%s: %s is not taken for a status of ours, or one of others is", test.name, test.want)
		}
	}
}

// sufferer is an Ingress in the time of a bubble.
type sufferer struct {
	t        *testing.T
	w        *Writer
	requests asked
	version  int
	mu       sync.Mutex
	told     []string
}

func newSufferer(t *testing.T, before ...addressEntry) *sufferer {
	s := &sufferer{t: t, version: 1}
	s.w = leadFor(t, Options{IP: "192.0.2.1"}, &s.requests)
	write := s.w.apply
	s.w.apply = func(ctx context.Context, task statusWrite) (*networkingv1.Ingress, error) {
		s.mu.Lock()
		s.told = append(s.told, strings.ReplaceAll(show(task.addresses), errorPrefix, ""))
		s.mu.Unlock()
		return write(ctx, task)
	}
	if len(before) > 0 {
		s.requests.version = 10
		s.version = 1010
	}
	return s
}

// is passes the condition of the Ingress to the Writer, with the first version seen.
func (s *sufferer) is(condition engine.Condition, seen ...addressEntry) {
	s.w.Ingress(testIngress("shop", "1", s.version, seen...), true, condition)
	synctest.Wait()
}

// written is all that was written so far.
func (s *sufferer) written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

// want compares all that was written so far.
func (s *sufferer) want(written ...string) {
	s.t.Helper()
	if got, want := strings.Join(s.written(), "; "), strings.Join(written, "; "); got != want {
		s.t.Errorf("written: %s, want %s", got, want)
	}
}

const (
	clean   = "192.0.2.1"
	noPods  = "192.0.2.1 80/TCP NoEndpoints 443/TCP NoEndpoints"
	noGrant = "192.0.2.1 80/TCP Refused 443/TCP Refused"
	noCert  = "192.0.2.1 443/TCP CertificateNotReady"
)

// TestNewIngressWaits: an Ingress whose Pods are only starting gets no status
// before they are ready, or it has taken a while. It never reports in between that
// all is well.
func TestNewIngressWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSufferer(t)
		s.is(unanswered)
		pass(degradedDelay - time.Millisecond)
		s.want()
		s.is(sound)
		s.want(clean)
	})
	synctest.Test(t, func(t *testing.T) {
		s := newSufferer(t)
		s.is(unanswered)
		pass(degradedDelay)
		s.want(noPods)
		s.is(sound)
		s.want(noPods, clean)
	})
	synctest.Test(t, func(t *testing.T) {
		s := newSufferer(t)
		s.is(incomplete)
		pass(incompleteDelay - time.Millisecond)
		s.want()
		pass(time.Millisecond)
		s.want(noGrant)
	})
}

// TestRefusalIsToldAtOnce: it does not get better by waiting.
func TestRefusalIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSufferer(t)
		s.is(sound)
		for range 3 {
			s.is(refusedNow)
			s.is(sound)
		}
		s.want(clean, noGrant, clean, noGrant, clean, noGrant, clean)
	})
}

// TestTroubleBehindTrouble: what was hidden behind something worse is reported as
// soon as that is gone.
func TestTroubleBehindTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSufferer(t)
		s.is(engine.Condition{Refused: true, NoEndpoints: true})
		s.want(noGrant)
		s.is(unanswered)
		s.want(noGrant, noPods)
		s.is(uncertified)
		s.want(noGrant, noPods, noCert)
		s.is(sound)
		s.want(noGrant, noPods, noCert, clean)
	})
	// The error of one port stays while something else comes to the other, and
	// a write of one error does not forget the next.
	const both = "192.0.2.1 80/TCP NoEndpoints 443/TCP CertificateNotReady"
	for _, first := range []struct {
		condition engine.Condition
		text      string
	}{{unanswered, noPods}, {uncertified, noCert}} {
		synctest.Test(t, func(t *testing.T) {
			s := newSufferer(t)
			s.is(first.condition)
			pass(degradedDelay - time.Second)
			s.is(engine.Condition{CertificateNotReady: true, NoEndpoints: true})
			pass(time.Second)
			s.want(first.text)
			pass(degradedDelay - time.Second)
			s.want(first.text, both)
		})
	}
}

// TestFlapping: endpoints that come and go quickly are no news, and those that do
// so slowly are reported no more than every half minute. A recovery is reported
// at once.
func TestFlapping(t *testing.T) {
	for _, test := range []struct {
		away time.Duration
		most int
	}{{degradedDelay - time.Second, 1}, {degradedDelay + 2*time.Second, 2 * 20}, {45 * time.Second, 2 * 7}} {
		synctest.Test(t, func(t *testing.T) {
			s := newSufferer(t)
			s.is(sound)
			pass(time.Second)
			for began := time.Now(); time.Since(began) < 10*time.Minute; {
				s.is(unanswered)
				pass(test.away)
				s.is(sound)
				if told := s.written(); told[len(told)-1] != clean {
					t.Fatalf("it is well again, and the status is %s", told[len(told)-1])
				}
				pass(test.away)
			}
			if got := len(s.written()); got > test.most+1 || test.most > 1 && got < 10 {
				t.Errorf("away for %s: %d writes in ten minutes, want at most %d", test.away, got, test.most)
			}
			pass(problemInterval)
			s.is(sound)
			s.w.mu.Lock()
			defer s.w.mu.Unlock()
			if s.w.records[ingressKey{"shop", "shop"}].problems != nil {
				t.Error("an Ingress that is well for long keeps its troubles")
			}
		})
	}
}

// TestTroubleAfterRestart: a new leader leaves a status that is still true, and
// corrects at once one that is not.
func TestTroubleAfterRestart(t *testing.T) {
	problem := ErrorNoEndpoints
	before := addressEntry{IP: "192.0.2.1", Ports: []portEntry{
		{Port: 80, Protocol: protocolTCP, Error: &problem}, {Port: 443, Protocol: protocolTCP, Error: &problem}}}
	synctest.Test(t, func(t *testing.T) {
		s := newSufferer(t, before)
		s.is(unanswered, before)
		pass(time.Minute)
		s.want()
		s.is(sound, before)
		s.want(clean)
	})
	// Its owner has changed while no leader watched.
	synctest.Test(t, func(t *testing.T) {
		s := newSufferer(t, before)
		s.w.Ingress(testIngress("shop", "1", s.version, before), false, sound)
		pass(time.Second)
		if got := s.requests.number(); got != 1 || s.written()[0] != "" {
			t.Errorf("it is not withdrawn: %d writes, %q", got, s.written())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		other := before
		other.IP = "192.0.2.2"
		s := newSufferer(t, other)
		s.w.Ingress(testIngress("shop", "1", s.version, other), false, sound)
		pass(time.Second)
		s.want()
	})
}

// TestErrorsInCluster: the API server takes the errors, and an Ingress with an
// error gets its address and loses the error when all is well.
func TestErrorsInCluster(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	r := start(t, cluster, namespace, Options{IP: "192.0.2.1", Hostname: "lb.example"})
	makeIngress(t, cluster, namespace, "shop", "ours")
	waitStatus(t, cluster, namespace, 1, "192.0.2.1/lb.example")
	for i, step := range []struct{ condition, want string }{
		{"refused", "192.0.2.1/lb.example 80/TCP slipway.dev/Refused 443/TCP slipway.dev/Refused"},
		{"", "192.0.2.1/lb.example"},
		{"uncertified", "192.0.2.1/lb.example 443/TCP slipway.dev/CertificateNotReady"},
		{"unanswered", "192.0.2.1/lb.example 80/TCP slipway.dev/NoEndpoints 443/TCP slipway.dev/NoEndpoints"},
		{"", "192.0.2.1/lb.example"},
	} {
		change(t, cluster, namespace, "shop", func(ingress *networkingv1.Ingress) {
			ingress.Annotations = map[string]string{conditionAnnotation: step.condition}
		})
		waitStatus(t, cluster, namespace, 1, step.want)
		programs.Until(t, "one write each", func() bool { return r.writes(resultWritten) == i+2 })
	}
	change(t, cluster, namespace, "shop", func(ingress *networkingv1.Ingress) {
		ingress.Annotations = map[string]string{conditionAnnotation: "refused"}
	})
	waitStatus(t, cluster, namespace, 0, "192.0.2.1/lb.example")
	setClass(t, cluster, namespace, "shop", "theirs")
	waitStatus(t, cluster, namespace, 1, "")
}
