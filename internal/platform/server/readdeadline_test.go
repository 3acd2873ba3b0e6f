package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/server"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// TestSlowBodies: no stranger keeps a connection by a body that does not come,
// whatever protocol its header claims.
func TestSlowBodies(t *testing.T) {
	server.ShortenReads(t, 300*time.Millisecond)
	p := launch(t)
	address := strings.TrimPrefix(p.url, "http://")
	const public, private = "/slipway.platform.v1.AuthService/SignIn", "/slipway.platform.v1.RuntimeService/WatchRuntimes"
	for _, c := range []struct{ name, path, content string }{
		{"gRPC", public, "application/grpc"},
		{"gRPC of a codec", public, "application/grpc+proto"},
		{"gRPC-Web", public, "application/grpc-web+proto"},
		{"Connect", public, "application/json"},
		{"Connect stream", public, "application/connect+proto"},
		{"renewal of a credential", "/slipway.platform.v1.AgentService/RenewCredential", "application/grpc"},
		{"stream of a stranger", private, "application/grpc"},
		{"runtime", "/runtimes/prod/app-proxy/slipway.runtime.v1.ApplicationService/Sync", "application/grpc"},
		{"tunnel", "/tunnel", "application/grpc"},
		{"peer", "/peer/x/y", "application/grpc"},
		{"console", "/console/", "text/plain"},
		{"nothing", "/nothing", "text/plain"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", address)
			check(t, err)
			defer conn.Close()
			check(t, conn.SetDeadline(time.Now().Add(patience)))
			_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\n\x00\x00", c.path, address, c.content)
			check(t, err)
			// A response may come first; then the connection ends.
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Errorf("the connection is open: %v", err)
			}
		})
	}
}

// TestSlowBodiesOverHTTP2: a stream ends, and the connection serves others.
func TestSlowBodiesOverHTTP2(t *testing.T) {
	server.ShortenReads(t, 300*time.Millisecond)
	p := launch(t)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	http2 := client(t, "", transport)
	body, writer := io.Pipe()
	defer writer.Close()
	go func() { _, _ = writer.Write([]byte{0, 0}) }()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/slipway.platform.v1.AuthService/SignIn", body)
	check(t, err)
	request.Header.Set("Content-Type", "application/grpc")
	if response, err := http2.Do(request); err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if status := response.Trailer.Get("Grpc-Status") + response.Header.Get("Grpc-Status"); status == "" || status == "0" {
			t.Errorf("the status is %q", status)
		}
	}
	if _, err := platformv1connect.NewAuthServiceClient(http2, p.url, connect.WithGRPC()).Methods(t.Context(), connect.NewRequest(&platformv1.MethodsRequest{})); err != nil {
		t.Errorf("another stream: %v", err)
	}
}

// TestWatchesLast: the stream of a caller who is signed in lasts longer than the
// body of a request may take, and a connection is used again after a response.
func TestWatchesLast(t *testing.T) {
	const timeout = 200 * time.Millisecond
	server.ShortenReads(t, timeout)
	p := launch(t)
	key := p.key("all")
	began := time.Now()
	stream, err := platformv1connect.NewRuntimeServiceClient(client(t, key, nil), p.url).WatchRuntimes(t.Context(), connect.NewRequest(&platformv1.WatchRuntimesRequest{}))
	check(t, err)
	defer stream.Close()
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	check(t, err)
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for time.Since(began) < 5*timeout {
		_, err = fmt.Fprintf(conn, "GET /console/ HTTP/1.1\r\nHost: x\r\n\r\n")
		check(t, err)
		response, err := http.ReadResponse(reader, nil)
		check(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		check(t, err)
		<-time.After(timeout) // longer than the rest of a request may take
	}
	_, err = platformv1connect.NewAccountServiceClient(client(t, key, nil), p.url).UpdateAccount(t.Context(), connect.NewRequest(&platformv1.UpdateAccountRequest{Name: "Other"}))
	check(t, err)
	p.cancel()
	for stream.Receive() {
	}
	if connect.CodeOf(stream.Err()) != connect.CodeUnavailable {
		t.Errorf("the watch ended with %v before the platform did", stream.Err())
	}
}
