package ingress

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/test/conformance/edgeprocess"
)

const (
	// askPeriod is how often each client asks, whatever becomes of its requests:
	// a slow response does not lower its rate.
	askPeriod = 50 * time.Millisecond
	// answerTimeout is when a response counts as missing.
	answerTimeout = 20 * time.Second
)

// client asks for one kind of thing again and again, and checks every response.
type client struct {
	name   string
	method string
	scheme string
	// host gives the one to ask for, and which Service is right.
	host func(number int) (name string, right *fact)
	// certificate is the common name that must be shown; nil does not matter.
	certificate *fact
	hold        time.Duration
	// user is the name and the password that the rule asks for; empty for none.
	user string
	// fresh makes a connection for each request.
	fresh bool
	h2    bool
}

// answer is the result of a request.
type answer struct {
	echoed
	status      int
	certificate string
}

// transport is how the client connects. dial leads to the edge.
func (c *client) transport(dial func(port int) dialer, trusted *x509.CertPool) *http.Transport {
	port := edgeprocess.PlainPort
	if c.scheme == "https" {
		port = edgeprocess.TLSPort
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(!c.h2)
	protocols.SetHTTP2(c.h2)
	return &http.Transport{
		DialContext: dial(port), MaxIdleConnsPerHost: 20, DisableKeepAlives: c.fresh,
		TLSClientConfig: &tls.Config{RootCAs: trusted}, Protocols: protocols,
	}
}

// dialer connects to the edge, whatever address it is given.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// ask makes one request and checks that the response is its own, and right.
func (c *client) ask(ctx context.Context, transport http.RoundTripper, number int) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	host, right := c.host(number)
	since, shown := right.now(), 0
	if c.certificate != nil {
		shown = c.certificate.now()
	}
	nonce := rand.Text()
	got, err := c.exchange(ctx, transport, host, nonce)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", host, err)
	case got.status != http.StatusOK:
		return fmt.Errorf("%s: status %d", host, got.status)
	case got.Host != host || !slices.Equal(got.Nonces, c.nonces(nonce)):
		return &misrouted{fmt.Sprintf("%s gets the answer of another request: %+v", host, got)}
	case !right.judge(since, got.Service):
		return &misrouted{fmt.Sprintf("%s is answered by %s at %s, and right is %v", host, got.Service, got.Pod, right.right())}
	case c.certificate != nil && !c.certificate.judge(shown, got.certificate):
		return &misrouted{fmt.Sprintf("%s shows certificate %s, and right is %v", host, got.certificate, c.certificate.right())}
	}
	return nil
}

// nonces are what the response must have.
func (c *client) nonces(nonce string) []string {
	if c.method == http.MethodPost {
		return []string{"/" + nonce, nonce, nonce}
	}
	return []string{"/" + nonce, nonce, ""}
}

func (c *client) exchange(ctx context.Context, transport http.RoundTripper, host, nonce string) (answer, error) {
	var body io.Reader
	if c.method == http.MethodPost {
		body = bytes.NewReader([]byte(nonce))
	}
	request, err := http.NewRequestWithContext(ctx, c.method, c.scheme+"://"+host+"/"+nonce, body)
	if err != nil {
		return answer{}, err
	}
	request.Header.Set(nonceHeader, nonce)
	if c.hold > 0 {
		request.Header.Set(holdHeader, c.hold.String())
	}
	if c.user != "" {
		request.SetBasicAuth(c.user, c.user)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return answer{}, err
	}
	got := answer{status: response.StatusCode}
	if response.TLS != nil {
		got.certificate = response.TLS.PeerCertificates[0].Subject.CommonName
	}
	if got.status == http.StatusOK {
		err = json.Unmarshal(text, &got.echoed)
	}
	return got, err
}

// misrouted is a response from the wrong place, which is worse than none.
type misrouted struct{ text string }

// Error describes what went where.
func (m *misrouted) Error() string { return m.text }

// traffic is what all clients went through.
type traffic struct {
	mu        sync.Mutex
	took      map[string][]time.Duration
	failed    collector
	misrouted collector
}

// requester sends requests of one kind again and again, by any protocol.
type requester struct {
	name string
	// hold is how long a request is kept on purpose.
	hold time.Duration
	ask  func(ctx context.Context, number int) error
	// close is called after the last request.
	close func()
}

// requesters are the clients with their connections.
func requesters(clients []*client, dial func(port int) dialer, trusted *x509.CertPool) []requester {
	var all []requester
	for _, c := range clients {
		transport := c.transport(dial, trusted)
		all = append(all, requester{name: c.name, hold: c.hold, close: transport.CloseIdleConnections,
			ask: func(ctx context.Context, number int) error { return c.ask(ctx, transport, number) }})
	}
	return all
}

// run lets requesters ask until stop is called.
func (w *traffic) run(requesters []requester) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	w.took = map[string][]time.Duration{}
	var working sync.WaitGroup
	for _, r := range requesters {
		working.Go(func() {
			defer r.close()
			var asking sync.WaitGroup
			defer asking.Wait()
			for number := 0; pause(ctx, askPeriod); number++ {
				asking.Go(func() { w.note(&r, number) })
			}
		})
	}
	return func() {
		cancel()
		working.Wait()
	}
}

// note makes a request and notes what came of it.
func (w *traffic) note(c *requester, number int) {
	began := time.Now()
	err := c.ask(context.Background(), number)
	took := time.Since(began)
	w.mu.Lock()
	w.took[c.name] = append(w.took[c.name], took-c.hold)
	w.mu.Unlock()
	wrong := (*misrouted)(nil)
	switch {
	case errors.As(err, &wrong):
		w.misrouted.add("%s: %v", c.name, err)
	case err != nil:
		w.failed.add("%s after %v: %v", c.name, took, err)
	}
}

// report logs the result, and fails the test if a client noticed anything.
func (w *traffic) report(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	total := 0
	for name, took := range w.took {
		slices.Sort(took)
		total += len(took)
		t.Logf("%-10s %5d requests, p50 %v, p99 %v, worst %v", name, len(took), round(took[len(took)/2]), round(took[len(took)*99/100]), round(took[len(took)-1]))
	}
	t.Logf("%d requests, %d failed, %d misrouted", total, w.failed.count, w.misrouted.count)
	w.failed.report(t, "requests failed")
	w.misrouted.report(t, "requests were misrouted")
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
