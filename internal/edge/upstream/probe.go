package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/route"
)

// maxCheckBody bounds the response of a check. A longer one passes too, but its
// connection is not used again.
const maxCheckBody = 64 << 10

// run checks the endpoint once. It returns nil when the endpoint is healthy.
func (p *checkPlan) run(stop context.Context) error {
	ctx, cancel := context.WithTimeout(stop, time.Duration(p.check.Timeout))
	defer cancel()
	err := p.runWithin(ctx)
	// The deadline of the socket may come before the context's timer.
	if deadline, _ := ctx.Deadline(); err != nil && (ctx.Err() != nil || !time.Now().Before(deadline)) {
		return fmt.Errorf("no response within %s", p.check.Timeout)
	}
	return err
}

func (p *checkPlan) runWithin(ctx context.Context) error {
	if p.check.Mode == route.CheckTCP {
		socket, err := p.dialer.dialTCP(ctx, p.target)
		if err == nil {
			_ = socket.Close()
		}
		return err
	}
	again, err := p.attempt(ctx, false)
	if again {
		// The idle connection was stale.
		_, err = p.attempt(ctx, true)
	}
	return err
}

// attempt makes one request. It reports whether it should be repeated on a new
// connection.
func (p *checkPlan) attempt(ctx context.Context, fresh bool) (again bool, err error) {
	var conn *Conn
	if !fresh {
		conn = p.target.takeIdle(nil)
	}
	if conn == nil {
		if conn, err = p.target.connect(ctx, p.dialer, time.Duration(p.check.Timeout), fresh); err != nil {
			return false, err
		}
	}
	err = p.exchange(ctx, conn)
	return err != nil && conn.Reused() && stale(err), err
}

// stale reports whether a connection ended before the first byte of a response.
func stale(err error) bool {
	return errors.Is(err, io.EOF) || errors.As(err, new(*h1.WriteError)) || errors.As(err, new(*net.OpError))
}

// exchange makes one request and checks the response. The context closes the
// connection.
func (p *checkPlan) exchange(ctx context.Context, conn *Conn) error {
	defer context.AfterFunc(ctx, func() { _ = conn.NetConn().Close() })()
	reusable, err := p.roundTrip(conn)
	if reusable {
		conn.Release()
	} else {
		conn.Close()
	}
	return err
}

// roundTrip sends the request and checks the response. It reports whether the
// connection can be used again.
func (p *checkPlan) roundTrip(conn *Conn) (reusable bool, err error) {
	conn.SetTimeouts(time.Duration(p.check.Timeout), time.Duration(p.check.Timeout))
	if _, err := conn.Writer.Write(p.request()); err != nil {
		return false, err
	}
	var head h1.ResponseHead
	for interim := 0; ; interim++ {
		if err := conn.Reader.ReadResponse(&head, h1.RequestInfo{}, conn.Limits); err != nil {
			return false, err
		}
		if !head.Interim() || interim > h1.MaxInterim {
			break
		}
	}
	var response checkResponse
	var body h1.Body
	body.Reset(head.Framing, head.Length, true, conn.Limits)
	read := (&h1.Transfer{
		From: conn.Reader, To: h1.NewWriter(&response, conn.endpoint.handle.set.cfg.Pool, h1.Timeouts{}), Body: &body, Most: maxCheckBody,
	}).Run()
	if p.check.Mode == route.CheckGRPC {
		err = checkGRPC(&head, &body, response.kept, read)
	} else if !p.check.Passes(head.Status) {
		err = fmt.Errorf("it responded with %d", head.Status)
	}
	return read == nil && head.Reusable, err
}

// request returns the HTTP request of the check.
func (p *checkPlan) request() []byte {
	if p.check.Mode == route.CheckGRPC {
		return p.requestGRPC()
	}
	return []byte("GET " + p.check.Path + " HTTP/1.1\r\nHost: " + p.host +
		"\r\nUser-Agent: slipway-health\r\nAccept: */*\r\n\r\n")
}

// requestGRPC returns a HealthCheckRequest of the gRPC health checking
// protocol, whose only field is the service.
func (p *checkPlan) requestGRPC() []byte {
	var message []byte
	if service := p.check.Service; service != "" {
		message = binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(service)))
		message = append(message, service...)
	}
	text := "POST /grpc.health.v1.Health/Check HTTP/1.1\r\nHost: " + p.host +
		"\r\nUser-Agent: slipway-health\r\nContent-Type: application/grpc\r\nTE: trailers\r\nConnection: TE\r\nContent-Length: " +
		strconv.Itoa(len(message)+5) + "\r\n\r\n"
	request := append([]byte(text), 0)
	request = binary.BigEndian.AppendUint32(request, uint32(len(message)))
	return append(request, message...)
}

// checkGRPC checks a HealthCheckResponse, whose only field is the status: 1 is
// SERVING.
func checkGRPC(head *h1.ResponseHead, body *h1.Body, message []byte, read error) error {
	if head.Status != 200 {
		return fmt.Errorf("it responded with %d", head.Status)
	}
	if read != nil {
		return read
	}
	status, ok := body.Trailers.Find("grpc-status")
	if !ok {
		status, ok = head.Find("grpc-status")
	}
	if !ok {
		return errors.New("its response has no gRPC status")
	}
	if string(status) != "0" {
		return fmt.Errorf("it responded with the gRPC status %.20q; 12 means that it has no health service, and 5 that it has no such service", status)
	}
	serving := uint64(0)
	if len(message) > 6 && message[0] == 0 && message[5] == 1<<3 {
		serving, _ = binary.Uvarint(message[6:])
	}
	if serving != 1 {
		return errors.New("it reports that it is not serving")
	}
	return nil
}

// checkResponse discards the body of a response, except for its beginning.
type checkResponse struct {
	net.Conn
	kept []byte
}

// Write implements [net.Conn].
func (a *checkResponse) Write(b []byte) (int, error) {
	a.kept = append(a.kept, b[:min(len(b), 1024-len(a.kept))]...)
	return len(b), nil
}

// SetWriteDeadline implements [net.Conn]. There is no write that could wait.
func (a *checkResponse) SetWriteDeadline(time.Time) error { return nil }
