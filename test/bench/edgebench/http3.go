package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// http3Proto is the protocol of requests over QUIC. nginx and HAProxy of Debian 12 do
// not speak it, nor do its load generators, so this program makes the load itself.
const http3Proto = "HTTP/3.0"

// newHTTP3 returns a client with one connection to a proxy, whatever the host.
func newHTTP3(at *site) *http3.Transport {
	return &http3.Transport{
		TLSClientConfig: &tls.Config{RootCAs: at.tls.trust},
		Dial: func(ctx context.Context, _ string, secure *tls.Config, config *quic.Config) (*quic.Conn, error) {
			return quic.DialAddr(ctx, at.address, secure, config)
		},
	}
}

// runHTTP3 sends requests over as many connections, with as many streams, as the load
// of HTTP/2 has.
func runHTTP3(ctx context.Context, o order) (outcome, error) {
	var clients [h2Connections]*http3.Transport
	for i := range clients {
		clients[i] = newHTTP3(o.site)
		defer clients[i].Close()
	}
	var next int
	return runMessages(ctx, o, func(ctx context.Context) (send, end func() error, err error) {
		client := clients[next%len(clients)]
		next++
		return func() error { return requestHTTP3(ctx, client, o) }, func() error { return nil }, nil
	})
}

// requestHTTP3 makes one request and reads its response.
func requestHTTP3(ctx context.Context, client http.RoundTripper, o order) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.target(), nil)
	if err != nil {
		return err
	}
	request.Host = o.site.requested().host
	response, err := client.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || n != int64(o.scenario.body)) {
		err = fmt.Errorf("the response has status %d and %d bytes", response.StatusCode, n)
	}
	return err
}
