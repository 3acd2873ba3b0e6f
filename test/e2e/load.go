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

// Load is what a client outside of the cluster has seen.
type Load struct {
	Requests int `json:"requests"`
	Failures int `json:"failures"`
	// Errors are the first of them, Kinds the requests of each kind of client, and
	// Slowest the longest answer.
	Errors  []string       `json:"errors,omitempty"`
	Kinds   map[string]int `json:"kinds"`
	Slowest time.Duration  `json:"slowest"`
}

const (
	// pause is between two requests of one client.
	pause = 20 * time.Millisecond
	// requestTimeout is when an answer counts as a failure.
	requestTimeout = 10 * time.Second
	clientsOfAKind = 2
	mostErrors     = 10
)

// client sends requests of one kind.
type client struct {
	kind, url string
	transport *http.Transport
}

// sendLoad sends steady requests until it is told to end, and prints what came of
// them. A request that failed is not sent again.
func sendLoad(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	address := flags.String("address", "", "address of the edge")
	host := flags.String("host", "", "host of the application")
	want := flags.String("want", "", "what the application answers")
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
	seen := &tally{load: Load{Kinds: map[string]int{}}}
	var wait sync.WaitGroup
	for _, one := range clients(*address, *host, pool) {
		wait.Go(func() { one.send(ctx, seen, *want+"\n") })
	}
	wait.Wait()
	return json.NewEncoder(os.Stdout).Encode(seen.load)
}

// clients are those that keep a connection and those that open one for each
// request, with HTTP/1.1 and HTTP/2.
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

func (c client) send(ctx context.Context, seen *tally, want string) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			began := time.Now()
			// A request that has begun is finished: only what the edge does may count.
			err := c.ask(context.WithoutCancel(ctx), want)
			seen.add(c.kind, time.Since(began), err)
		}
	}
}

func (c client) ask(ctx context.Context, want string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return err
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	err = errors.Join(err, response.Body.Close())
	if err == nil && (response.StatusCode != http.StatusOK || string(body) != want) {
		err = fmt.Errorf("%s: %q", response.Status, body[:min(len(body), 100)])
	}
	return err
}

// tally counts for all clients.
type tally struct {
	mu   sync.Mutex
	load Load
}

func (t *tally) add(kind string, took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.load.Requests++
	t.load.Kinds[kind]++
	t.load.Slowest = max(t.load.Slowest, took)
	if err == nil {
		return
	}
	t.load.Failures++
	if len(t.load.Errors) < mostErrors {
		t.load.Errors = append(t.load.Errors, fmt.Sprintf("%s %s: %v", time.Now().UTC().Format("15:04:05.000"), kind, err))
	}
}
