package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Load is the result of a load generator, printed as JSON on its standard
// output.
type Load struct {
	Requests int `json:"requests"`
	Failures int `json:"failures"`
	// Errors are the first mostErrors failures, with their time. Kinds has the
	// number of requests by kind of client, and Slowest is the longest duration
	// of a request, failed ones included.
	Errors  []string       `json:"errors,omitempty"`
	Kinds   map[string]int `json:"kinds"`
	Slowest time.Duration  `json:"slowest"`
	// Revisions has the span of each revision of the application, by the header
	// that its responses have.
	Revisions map[string]Span `json:"revisions,omitempty"`
}

// Span is the time from the first response of a revision to its last one, with
// all requests that ended in it, whichever revision served them.
type Span struct {
	Took     time.Duration `json:"took"`
	Requests int           `json:"requests"`
	Failures int           `json:"failures"`
}

const (
	// pause is the interval between two requests of one client. It keeps the
	// load steady and far below saturation: the test is about errors.
	pause = 20 * time.Millisecond
	// requestTimeout is when a pending request counts as a failure.
	requestTimeout = 10 * time.Second
	// clientsOfAKind is the number of parallel clients of each kind.
	clientsOfAKind = 2
	// mostErrors bounds the report when everything fails.
	mostErrors = 10
)

// client sends requests of one kind on its own transport, so clients share no
// connections.
type client struct {
	kind, url string
	transport *http.Transport
}

// sendLoad sends steady requests until the context is canceled by SIGTERM, and
// prints the result. It does not retry: a failed request is what the test is
// looking for, and http.Transport alone retries on a stale connection, as
// browsers do.
func sendLoad(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	address := flags.String("address", "", "address of the edge")
	host := flags.String("host", "", "host of the application")
	want := flags.String("want", "", "expected response of the application")
	authorities := flags.String("authorities", "", "file with the authority of the certificate")
	if err := flags.Parse(args); err != nil {
		return err
	}
	text, err := os.ReadFile(*authorities)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s has no certificate", *authorities)
	}
	seen := &counters{load: Load{Kinds: map[string]int{}}}
	var wait sync.WaitGroup
	for _, one := range clients(*address, *host, pool) {
		wait.Go(func() { one.send(ctx, seen, *want+"\n") })
	}
	wait.Wait()
	seen.load.Revisions = spans(seen.samples)
	return json.NewEncoder(os.Stdout).Encode(seen.load)
}

// clients returns clients with kept connections and with one connection per
// request, for HTTP/1.1, HTTP/1.1 over TLS and HTTP/2. Kept connections show
// whether the edge drains them, and new ones whether it accepts until the end.
func clients(address, host string, pool *x509.CertPool) []client {
	var all []client
	for range clientsOfAKind {
		for _, one := range []struct {
			kind, scheme, port string
			once, http2        bool
		}{
			{"HTTP/1.1, kept connections", "http", "80", false, false},
			{"HTTP/1.1, a connection each", "http", "80", true, false},
			{"HTTP/1.1 with TLS, a connection each", "https", "443", true, false},
			{"HTTP/2, kept connections", "https", "443", false, true},
		} {
			// All hosts are dialed at the given address, so the load does not
			// depend on the cluster DNS, while the Host header and SNI stay
			// real.
			transport := &http.Transport{
				DisableKeepAlives: one.once, ForceAttemptHTTP2: one.http2, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
				DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(address, one.port))
				},
			}
			all = append(all, client{one.kind, one.scheme + "://" + host + "/", transport})
		}
	}
	return all
}

// send sends a request per tick until the context is canceled. A slow response
// delays the next request of this client only.
func (c client) send(ctx context.Context, seen *counters, want string) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			began := time.Now()
			// A started request is completed: canceling it at the end would
			// count as a failure of the edge.
			revision, err := c.request(context.WithoutCancel(ctx), want)
			seen.add(sample{c.kind, revision, time.Now(), time.Since(began), err})
		}
	}
}

// request sends one request. It returns the revision that responded, and an error
// unless the response is 200 with the wanted body.
func (c client) request(ctx context.Context, want string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return "", err
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	// The body is read to the end, so that the connection is reused and a
	// truncated response is an error.
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	err = errors.Join(err, response.Body.Close())
	if err == nil && (response.StatusCode != http.StatusOK || string(body) != want) {
		err = fmt.Errorf("%s: %q", response.Status, body[:min(len(body), 100)])
	}
	return response.Header.Get(revisionHeader), err
}

// sample is a request that has ended.
type sample struct {
	kind, revision string
	ended          time.Time
	took           time.Duration
	err            error
}

// counters accumulates the results of all clients. mu guards load and samples.
type counters struct {
	mu   sync.Mutex
	load Load
	// samples are kept for the spans, which are known at the end only: until
	// then, any response may be the last one of a revision.
	samples []sample
}

// add counts one request. The time in an error is UTC, to be matched with the
// logs of the Pods.
func (t *counters) add(one sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.samples = append(t.samples, one)
	t.load.Requests++
	t.load.Kinds[one.kind]++
	t.load.Slowest = max(t.load.Slowest, one.took)
	if one.err == nil {
		return
	}
	t.load.Failures++
	if len(t.load.Errors) < mostErrors {
		t.load.Errors = append(t.load.Errors, fmt.Sprintf("%s %s: %v", one.ended.UTC().Format("15:04:05.000"), one.kind, one.err))
	}
}

// spans returns the span of each revision that has responded.
func spans(samples []sample) map[string]Span {
	first, last := map[string]time.Time{}, map[string]time.Time{}
	for _, one := range samples {
		if one.revision == "" {
			continue
		}
		if begin, known := first[one.revision]; !known || one.ended.Before(begin) {
			first[one.revision] = one.ended
		}
		if one.ended.After(last[one.revision]) {
			last[one.revision] = one.ended
		}
	}
	found := make(map[string]Span, len(first))
	for revision, begin := range first {
		span := Span{Took: last[revision].Sub(begin)}
		for _, one := range samples {
			if one.ended.Before(begin) || one.ended.After(last[revision]) {
				continue
			}
			span.Requests++
			if one.err != nil {
				span.Failures++
			}
		}
		found[revision] = span
	}
	return found
}
