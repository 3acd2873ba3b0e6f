package smuggling

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"sync"
	"time"
)

const (
	// quiet is how long a client that gets nothing waits before it closes its
	// side for writing, so that a server which waits for the rest of
	// a body gives up.
	quiet = 2 * time.Second
	// patience is how long it then waits for the server to close.
	patience = 20 * time.Second
	// maxAnswer bounds what is read; no response is larger.
	maxAnswer = 1 << 20
	// clients is how many connections are open at a time, for each backend.
	clients = 6
)

// nonce is the mark of one case at one backend.
func nonce(number int) string { return fmt.Sprintf("q%07xq", number) }

var noncePattern = regexp.MustCompile(`q[0-9a-f]{7}q`)

// nonceOf returns the nonce of the case that a request belongs to. The target has it; one without
// a nonce in it, such as *, has it in the header.
func nonceOf(r record) string {
	if found := noncePattern.FindString(r.Target); found != "" {
		return found
	}
	return noncePattern.FindString(r.Nonce)
}

// outcome is what a client got for a case.
type outcome struct {
	sample sample
	nonce  string
	got    []byte
	err    error // the server did not close
}

// sendAll sends each case on a connection of its own and returns what came
// back, by the number of the case.
func sendAll(address string, cases []sample, first int) []outcome {
	outcomes := make([]outcome, len(cases))
	next := make(chan int)
	var working sync.WaitGroup
	for range clients {
		working.Go(func() {
			for i := range next {
				mark := nonce(first + i)
				got, err := send(address, nonced(cases[i].raw+canary, mark))
				outcomes[i] = outcome{cases[i], mark, got, err}
			}
		})
	}
	for i := range cases {
		next <- i
	}
	close(next)
	working.Wait()
	return outcomes
}

// send writes everything at once and reads until the other side closes.
func send(address, text string) ([]byte, error) {
	network := "tcp"
	if address[0] == '/' {
		network = "unix"
	}
	conn, err := net.DialTimeout(network, address, patience)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		// A server that refuses closes before it has read everything.
		_ = conn.SetWriteDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(conn, text)
	})
	var got []byte
	buf := make([]byte, 16<<10)
	wait := quiet
	for {
		if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return got, err
		}
		n, err := conn.Read(buf)
		got = append(got, buf[:n]...)
		switch {
		case err == nil && len(got) > maxAnswer:
			return got, errors.New("the answer has no end")
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) && wait == quiet:
			wait = patience
			_ = conn.(interface{ CloseWrite() error }).CloseWrite()
		case errors.Is(err, os.ErrDeadlineExceeded):
			return got, errors.New("the connection was not closed")
		default:
			return got, nil
		}
	}
}
