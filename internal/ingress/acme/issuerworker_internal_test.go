package acme

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// desk is an issuer worker whose certificate store and source are in memory. It runs in a bubble of
// testing/synctest, so hours cost nothing.
type desk struct {
	*issuerWorker
	// kept are the certificates, by Secret, and refused why nothing can be kept.
	kept    map[snapshot.Ref]*x509.Certificate
	stale   bool
	refused error
	// orders are the times of orders since the beginning, by host, and fail is
	// what becomes of them.
	orders  []string
	fail    error
	advice  time.Time
	advised int
	began   time.Time
	// told is the last refusal, by Ingress.
	told map[string]string
	// mu is with the test while it looks, and with the issuer worker while the test waits.
	mu sync.Mutex
}

const lifetime = 90 * 24 * time.Hour

// newDesk starts an issuer worker until the end of the test.
func newDesk(t *testing.T) *desk {
	d := &desk{kept: map[snapshot.Ref]*x509.Certificate{}, told: map[string]string{}, began: time.Now()}
	manager := New(nil, Options{Report: func(ingress snapshot.Ref, _ string, fault *refusal.Refusal) {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.told, ingress.Name)
		if fault != nil {
			d.told[ingress.Name] = string(fault.Reason) + " " + fault.Text()
		}
	}})
	d.issuerWorker = newIssuerWorker(manager, "le", d, d)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() {
		d.mu.Unlock()
		cancel()
		<-done
	})
	d.mu.Lock()
	go func() {
		defer close(done)
		d.run(ctx)
	}()
	return d
}

func (d *desk) read(_ context.Context, wanted certrequest.Request) (storedCertificate, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return storedCertificate{leaf: d.kept[wanted.Secret], stale: d.stale}, nil
}

func (d *desk) write(_ context.Context, wanted certrequest.Request, _ storedCertificate, fresh *issued) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if fresh != nil {
		d.kept[wanted.Secret], d.stale = fresh.leaf, false
	}
	return d.refused
}

func (d *desk) obtain(_ context.Context, hosts []string, _ *x509.Certificate) (*issued, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.orders = append(d.orders, fmt.Sprintf("%s %v", hosts[0], time.Since(d.began).Round(time.Minute)))
	if d.fail != nil {
		return nil, d.fail
	}
	return &issued{leaf: valid(time.Now())}, nil
}

func (d *desk) renewalInfo(context.Context, *x509.Certificate) (time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.advised++
	if d.advice.IsZero() {
		return time.Time{}, errNoRenewalInfo
	}
	return d.advice, nil
}

func valid(from time.Time) *x509.Certificate {
	return &x509.Certificate{NotBefore: from, NotAfter: from.Add(lifetime)}
}

// requestFor is a certificate request of the Ingress that is named as the host.
func requestFor(host string) certrequest.Request {
	return certrequest.Request{
		Resolver: "le", Hosts: []string{host}, Secret: snapshot.Ref{Kind: snapshot.Secret, Namespace: "shop", Name: host},
		From: []certrequest.Requester{{Object: snapshot.Ref{Kind: snapshot.Ingress, Namespace: "shop", Name: host}, Field: "field"}},
	}
}

func (d *desk) wantOrders(t *testing.T, want ...string) {
	t.Helper()
	d.wait()
	if !slices.Equal(d.orders, want) {
		t.Errorf("orders: %q, want %q", d.orders, want)
	}
}

// wait lets the issuer worker do all that is due.
func (d *desk) wait() {
	d.mu.Unlock()
	synctest.Wait()
	d.mu.Lock()
}

// pass lets time pass, and what is due then be done.
func (d *desk) pass(duration time.Duration) {
	d.mu.Unlock()
	<-time.After(duration)
	d.mu.Lock()
	d.wait()
}

// TestBackoff: after a failure a minute passes, then twice as long each time, up
// to six hours, with a fifth of jitter; the refusal is reported at the Ingress.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.fail = errors.New("no")
		d.manager.SetRequests([]certrequest.Request{requestFor("a")})
		d.wait()
		if !strings.Contains(d.told["a"], "NotReady field: the certificate for a could not be issued by the resolver le: no; the next attempt is after 2000-01-01T00:01:") {
			t.Errorf("told: %q", d.told)
		}
		at := time.Now()
		for i, least := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360} {
			least *= time.Minute
			d.pass(time.Until(at.Add(least - time.Second)))
			if len(d.orders) != i+1 {
				t.Fatalf("attempt %d came before %v", i+2, least)
			}
			d.pass(least/5 + 2*time.Second)
			if len(d.orders) != i+2 {
				t.Fatalf("attempt %d did not come within %v", i+2, least*6/5)
			}
			at = d.jobs[requestFor("a").Secret].due.Add(-d.manager.timing.retryDelay(i + 2)) // with the next jitter
		}
		d.fail = nil
		d.pass(8 * time.Hour)
		if len(d.told) > 0 || d.kept[requestFor("a").Secret] == nil {
			t.Errorf("after success it is told: %q", d.told)
		}
	})
}

// TestRenewalTime: a certificate is renewed when a third of its time is left or
// a little earlier, and again when a third of the new one's is.
func TestRenewalTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.manager.SetRequests([]certrequest.Request{requestFor("a")})
		d.wantOrders(t, "a 0s")
		d.pass(lifetime*2/3 - lifetime/30 - time.Hour)
		d.wantOrders(t, "a 0s")
		d.pass(lifetime/30 + 2*time.Hour)
		if len(d.orders) != 2 {
			t.Errorf("orders: %q", d.orders)
		}
		d.pass(lifetime * 2 / 3)
		if len(d.orders) != 3 {
			t.Errorf("orders: %q", d.orders)
		}
	})
}

// TestNothingIsOrderedAnew: a stored certificate is used, no matter which process fetched it; one that
// is past its renewal, or of another authority, is replaced.
func TestNothingIsOrderedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		there, old := requestFor("there"), requestFor("old")
		d.kept[there.Secret] = valid(time.Now())
		d.kept[old.Secret] = valid(time.Now().Add(-lifetime * 3 / 4))
		d.manager.SetRequests([]certrequest.Request{there, old})
		d.wantOrders(t, "old 0s")
		// With the same requests once more, nothing happens.
		d.manager.SetRequests([]certrequest.Request{there, old})
		d.wantOrders(t, "old 0s")
		// Deleted from outside, it is ordered again.
		there.Ready = true
		d.manager.SetRequests([]certrequest.Request{there, old})
		d.wait()
		delete(d.kept, there.Secret)
		there.Ready = false
		d.manager.SetRequests([]certrequest.Request{there, old})
		d.wantOrders(t, "old 0s", "there 0s")
		// From another authority.
		d.stale = true
		there.Ready = true
		d.manager.SetRequests([]certrequest.Request{there, old})
		d.wait()
		there.Ready = false
		d.manager.SetRequests([]certrequest.Request{there, old})
		d.wantOrders(t, "old 0s", "there 0s", "there 0s")
	})
}

// TestNothingIsOrderedInVain: what could not be kept is not ordered.
func TestNothingIsOrderedInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.refused = errors.New("forbidden")
		d.manager.SetRequests([]certrequest.Request{requestFor("a")})
		d.wantOrders(t)
		if !strings.Contains(d.told["a"], "nothing is ordered, because the certificate could not be stored: forbidden") {
			t.Errorf("told: %q", d.told)
		}
		d.manager.SetRequests(nil)
		d.wait()
		if len(d.told) > 0 {
			t.Errorf("reported to an Ingress that requests nothing any more: %q", d.told)
		}
	})
}

// TestComeBack: the Retry-After of an authority is respected, by the
// request that got it, and when the authority is busy by all.
func TestComeBack(t *testing.T) {
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprintf("busy %v", busy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				d.fail = fmt.Errorf("order: %w", &retryAfterError{error: errors.New("too many"), at: time.Now().Add(3 * time.Hour), busy: busy})
				d.manager.SetRequests([]certrequest.Request{requestFor("a")})
				d.wantOrders(t, "a 0s")
				d.fail = nil
				d.pass(time.Hour)
				d.manager.SetRequests([]certrequest.Request{requestFor("a"), requestFor("b")})
				if busy {
					d.wantOrders(t, "a 0s")
				} else {
					d.wantOrders(t, "a 0s", "b 1h0m0s")
				}
				d.pass(2*time.Hour + time.Minute)
				if len(d.orders) != 3 || !slices.Contains(d.orders, "a 3h0m0s") {
					t.Errorf("orders: %q", d.orders)
				}
			})
		})
	}
}

// TestAdvice: a certificate that the authority wants replaced is replaced, and
// an authority without advice is asked once.
func TestAdvice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.advice = time.Now().Add(10 * 24 * time.Hour)
		d.manager.SetRequests([]certrequest.Request{requestFor("a")})
		d.wantOrders(t, "a 0s")
		there := requestFor("b")
		d.kept[there.Secret] = valid(time.Now())
		d.manager.SetRequests([]certrequest.Request{requestFor("a"), there})
		d.pass(10*24*time.Hour - time.Hour)
		d.wantOrders(t, "a 0s")
		d.pass(2 * time.Hour)
		slices.Sort(d.orders)
		d.wantOrders(t, "a 0s", "a 240h0m0s", "b 240h0m0s")
		if d.advised < 40 {
			t.Errorf("it was asked %d times", d.advised)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		there := requestFor("b")
		d.kept[there.Secret] = valid(time.Now())
		d.manager.SetRequests([]certrequest.Request{there})
		d.pass(5 * 24 * time.Hour)
		if d.advised != 1 {
			t.Errorf("an authority without advice was asked %d times", d.advised)
		}
	})
}
