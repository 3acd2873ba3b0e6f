package ingress

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// judge checks that a response has the nonce of its request, and comes from a Service
// that was right since a moment.
func judge(text []byte, what, nonce string, right *fact, since int) (echoed, error) {
	var got echoed
	if err := json.Unmarshal(text, &got); err != nil {
		return got, fmt.Errorf("%s: %w", what, err)
	}
	switch {
	case !slices.Equal(got.Nonces, []string{nonce}):
		return got, &misrouted{fmt.Sprintf("%s gets the response of another request: %+v", what, got)}
	case !right.judge(since, got.Service):
		return got, &misrouted{fmt.Sprintf("%s is served by %s at %s, and right is %v", what, got.Service, got.Pod, right.right())}
	}
	return got, nil
}

// call is a gRPC call of a connection for a host.
func call(ctx context.Context, conn *grpc.ClientConn, host string, right *fact, since int) (echoed, error) {
	nonce := rand.Text()
	var out wrapperspb.StringValue
	if err := conn.Invoke(ctx, "/"+echoService+"/"+echoMethod, wrapperspb.String(nonce), &out); err != nil {
		return echoed{}, fmt.Errorf("%s: %w", host, err)
	}
	got, err := judge([]byte(out.Value), host, nonce, right, since)
	if err == nil && got.Host != host {
		err = &misrouted{fmt.Sprintf("%s gets the response of another host: %+v", host, got)}
	}
	return got, err
}

// dialGRPC is a connection for calls to a host. It connects with the first one.
func dialGRPC(address, host string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority(host), grpc.WithDisableRetry(), grpc.WithNoProxy())
}

// newCaller makes gRPC calls for a host, on one connection.
func newCaller(name, address, host string, right *fact) (requester, error) {
	conn, err := dialGRPC(address, host)
	return requester{
		name: name, close: func() { _ = conn.Close() },
		ask: func(ctx context.Context, _ int) error {
			ctx, cancel := context.WithTimeout(ctx, answerTimeout)
			defer cancel()
			_, err := call(ctx, conn, host, right, right.now())
			return err
		},
	}, err
}

// lineClient exchanges lines on connections, by TCP or by TLS.
type lineClient struct {
	name, address string
	// server is the name that the certificate is for; empty for TCP.
	server  string
	trusted *x509.CertPool
	right   *fact
	// lines is the number of lines of a connection, with a gap between two.
	lines int
	gap   time.Duration
}

// requester is the client for traffic.
func (c *lineClient) requester() requester {
	return requester{
		name: c.name, hold: time.Duration(c.lines-1) * c.gap, close: func() {},
		ask: func(ctx context.Context, _ int) error {
			_, err := c.exchange(ctx)
			return err
		},
	}
}

// exchange makes a connection and checks all of its responses: one pod sends them, which
// is right since the connection began.
func (c *lineClient) exchange(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	since := c.right.now()
	conn, err := c.connect(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if deadline, set := ctx.Deadline(); set {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	responses, first := bufio.NewReader(conn), echoed{}
	for i := range c.lines {
		if i > 0 {
			pause(ctx, c.gap)
		}
		nonce := rand.Text()
		if _, err := conn.Write([]byte(nonce + "\n")); err != nil {
			return "", fmt.Errorf("line %d: %w", i, err)
		}
		text, err := responses.ReadBytes('\n')
		if err != nil {
			return "", fmt.Errorf("response %d: %w", i, err)
		}
		got, err := judge(text, c.name, nonce, c.right, since)
		if err != nil {
			return "", err
		}
		if i == 0 {
			first = got
		}
		if got.Pod != first.Pod {
			return "", &misrouted{fmt.Sprintf("%s: a connection to %s is served by %s", c.name, first.Pod, got.Pod)}
		}
	}
	if encrypted, ok := conn.(*tls.Conn); ok {
		if shown := encrypted.ConnectionState().PeerCertificates[0].Subject.CommonName; shown != first.Service {
			return "", &misrouted{fmt.Sprintf("%s is served by %s with the certificate of %s", c.server, first.Service, shown)}
		}
	}
	return first.Service, nil
}

// connect opens the connection.
func (c *lineClient) connect(ctx context.Context) (net.Conn, error) {
	if c.server == "" {
		return new(net.Dialer).DialContext(ctx, "tcp", c.address)
	}
	return (&tls.Dialer{Config: &tls.Config{ServerName: c.server, RootCAs: c.trusted}}).DialContext(ctx, "tcp", c.address)
}

// datagramClient exchanges datagrams. One that is lost is sent again, and counted: only
// a response from the wrong place is an error.
type datagramClient struct {
	name, address string
	right         *fact
	// kept makes all datagrams come from one socket.
	kept bool
	// lost and received count requests without and with a response.
	lost, received atomic.Int64

	mu     sync.Mutex // guards what follows
	socket net.Conn
	sent   []string // the last nonces, whose responses may come late
}

const (
	// datagramTries bounds how often a datagram is sent, and datagramWait is the
	// pause between two.
	datagramTries = 5
	datagramWait  = time.Second
)

// requester is the client for traffic.
func (c *datagramClient) requester() requester {
	return requester{
		name: c.name,
		ask: func(ctx context.Context, _ int) error {
			_, err := c.exchange(ctx)
			return err
		},
		close: func() {
			if c.socket != nil {
				_ = c.socket.Close()
			}
		},
	}
}

// exchange sends a datagram until its response comes, and returns the Service that
// sent it; empty if all were lost.
func (c *datagramClient) exchange(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.socket == nil {
		socket, err := new(net.Dialer).DialContext(ctx, "udp", c.address)
		if err != nil {
			return "", err
		}
		c.socket = socket
	}
	if !c.kept {
		defer func() {
			_ = c.socket.Close()
			c.socket, c.sent = nil, nil
		}()
	}
	for range datagramTries {
		service, err := c.try()
		var failed net.Error
		if err == nil {
			c.received.Add(1)
			return service, nil
		}
		if !errors.As(err, &failed) {
			return "", err
		}
	}
	c.lost.Add(1)
	return "", nil
}

// try sends one datagram and waits for its response.
func (c *datagramClient) try() (string, error) {
	nonce, since := rand.Text(), c.right.now()
	c.sent = append(c.sent[max(0, len(c.sent)-100):], nonce)
	if _, err := c.socket.Write([]byte(nonce)); err != nil {
		return "", err
	}
	if err := c.socket.SetReadDeadline(time.Now().Add(datagramWait)); err != nil {
		return "", err
	}
	buf := make([]byte, 1<<10)
	for {
		n, err := c.socket.Read(buf)
		if err != nil {
			return "", err
		}
		var got echoed
		if json.Unmarshal(buf[:n], &got) == nil && len(got.Nonces) == 1 && got.Nonces[0] != nonce && slices.Contains(c.sent, got.Nonces[0]) {
			continue // late
		}
		got, err = judge(buf[:n], c.name, nonce, c.right, since)
		return got.Service, err
	}
}
