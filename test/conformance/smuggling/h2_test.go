package smuggling

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/test/conformance/rawh2"
)

// leastStreams is how many cases of HTTP/2 there have to be.
const leastStreams = 100

// h2Outcome is what a client of HTTP/2 got for a case.
type h2Outcome struct {
	stream  stream
	nonce   string
	replies *rawh2.Replies
	err     error
}

func TestHTTP2(t *testing.T) {
	cases := h2Corpus()
	if len(cases) < leastStreams {
		t.Fatalf("there are %d cases, fewer than %d", len(cases), leastStreams)
	}
	s := setStage(t)
	outcomes := make([][]h2Outcome, len(s.backends))
	var working sync.WaitGroup
	for i, b := range s.backends {
		working.Go(func() { outcomes[i] = playStreams(s.edge.Address(b.name), cases, i*len(cases)+1) })
	}
	working.Wait()
	s.strike()
	for i, b := range s.backends {
		e, problems := gather(s.taps[i], b.ledger)
		for _, problem := range problems {
			t.Errorf("%s: %v", b.name, problem)
		}
		var count tally
		for _, o := range outcomes[i] {
			for _, problem := range e.judgeStream(o, &count) {
				t.Errorf("%s: %s: %v\nsent %.500q\ngot  %s", b.name, o.stream.name, problem, o.stream.fields, o)
			}
		}
		t.Logf("%-5s %d cases: %d served, %d refused, %d with the connection; %d requests declined by the backend",
			b.name, len(cases), count.served, count.refused, count.dropped, count.declined)
		if count.served < 20 || count.refused < 50 {
			t.Errorf("%s: too little of one kind: %+v", b.name, count)
		}
	}
}

// playStreams sends each case on a connection of its own, with a canary behind.
func playStreams(address string, cases []stream, first int) []h2Outcome {
	outcomes := make([]h2Outcome, len(cases))
	next := make(chan int)
	var working sync.WaitGroup
	for range clients {
		working.Go(func() {
			for i := range next {
				mark := nonce(first + i)
				replies, err := cases[i].play(address, mark)
				outcomes[i] = h2Outcome{cases[i], mark, replies, err}
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

// play sends a case on stream 1 and the canary on stream 3.
func (s stream) play(address, mark string) (*rawh2.Replies, error) {
	conn, err := rawh2.Dial(address, time.Now().Add(patience))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		// A server that closes the connection makes these fail, which the
		// other side notices.
		_ = s.write(conn, mark)
	})
	if s.dangling {
		return conn.Collect(3)
	}
	return conn.Collect(1, 3)
}

func (s stream) write(conn *rawh2.Conn, mark string) error {
	last := !s.dangling && len(s.trailers) == 0
	if err := conn.Headers(1, last && len(s.data) == 0, stamped(s.fields, mark)...); err != nil {
		return err
	}
	for i, piece := range s.data {
		if err := conn.Data(1, last && i == len(s.data)-1, nonced(piece, mark)); err != nil {
			return err
		}
	}
	if len(s.trailers) > 0 {
		if err := conn.Headers(1, true, stamped(s.trailers, mark)...); err != nil {
			return err
		}
	}
	return conn.Headers(3, true, stamped(base(rawh2.F(":path", "/canary-"+stamp)), mark)...)
}

func stamped(fields []rawh2.Field, mark string) []rawh2.Field {
	all := slices.Clone(fields)
	for i := range all {
		all[i].Name, all[i].Value = nonced(all[i].Name, mark), nonced(all[i].Value, mark)
	}
	return all
}

// judgeStream finds everything that is wrong with the outcome of a case.
func (e evidence) judgeStream(o h2Outcome, count *tally) []error {
	if o.err != nil {
		return []error{o.err}
	}
	var problems []error
	var asked []forwarded
	for _, r := range e.written[o.nonce] {
		switch {
		case !r.complete:
		case r.same(record{"", "GET", "/canary-" + o.nonce, site, 0, sumOf(nil)}):
		case strings.Contains(r.Target, "canary") || strings.Contains(r.Target, "hidden"):
			problems = append(problems, fmt.Errorf("this was passed on: %s", r.record))
		default:
			asked = append(asked, r)
		}
	}
	problems = append(problems, e.checkStreams(o)...)
	reply := o.replies.Streams[1]
	served := reply != nil && reply.Status != "" && reply.Status < "400" && reply.Reset == nil
	declined := len(asked) == 1 && reply != nil && reply.Status >= "400"
	switch {
	case len(asked) > 1:
		problems = append(problems, fmt.Errorf("one stream became %d requests: %v", len(asked), asked))
	case served != (len(asked) == 1) && !declined && !e.cutOff(o, asked):
		problems = append(problems, fmt.Errorf("it was answered with %v, and %d requests were passed on", reply, len(asked)))
	case o.stream.want == refuse && len(asked) > 0:
		problems = append(problems, fmt.Errorf("it has to be refused, and was not: %s", asked[0].record))
	case o.stream.want == serve && !served:
		problems = append(problems, errors.New("it has to be served, and was not"))
	}
	switch {
	case served:
		count.served++
	case o.replies.Closed:
		count.dropped++
	case declined:
		count.declined++
	default:
		count.refused++
	}
	return problems
}

// cutOff reports whether a request was passed on whole and its response then thrown
// away with the stream, which a client may cause at any time.
func (e evidence) cutOff(o h2Outcome, asked []forwarded) bool {
	reply := o.replies.Streams[1]
	return len(asked) == 1 && o.stream.want == either && (o.replies.Closed || reply != nil && reply.Reset != nil)
}

// checkStreams compares the responses with what the backend received, and looks
// for the canary: a connection that stays open serves it.
func (e evidence) checkStreams(o h2Outcome) []error {
	var problems []error
	received := map[string]record{}
	for _, r := range e.received[o.nonce] {
		if _, twice := received[r.Target]; twice {
			problems = append(problems, fmt.Errorf("the backend received %s twice", r.Target))
		}
		received[r.Target] = r
	}
	for _, r := range e.written[o.nonce] {
		seen, ok := received[r.Target]
		if r.complete && ok && !seen.same(r.record) {
			problems = append(problems, fmt.Errorf("the edge wrote %s, the backend received %s", r.record, seen))
		}
		delete(received, r.Target)
	}
	for _, r := range received {
		problems = append(problems, fmt.Errorf("the backend received what the edge did not write: %s", r))
	}
	for id, reply := range o.replies.Streams {
		var seen record
		if reply.Status == "200" && len(reply.Body) > 0 && json.Unmarshal(reply.Body, &seen) == nil && nonceOf(seen) != o.nonce {
			problems = append(problems, fmt.Errorf("stream %d got the answer of another client: %s", id, seen))
		}
	}
	canary := o.replies.Streams[3]
	if !o.replies.Closed && (canary == nil || canary.Status != fmt.Sprint(http.StatusOK)) {
		problems = append(problems, fmt.Errorf("the connection is open, and the canary got %v", canary))
	}
	return problems
}

// String is for people who look for a mistake.
func (o h2Outcome) String() string {
	var text strings.Builder
	for id, reply := range o.replies.Streams {
		fmt.Fprintf(&text, "stream %d: status %q, reset %v, ended %v, body %.200q; ", id, reply.Status, reply.Reset, reply.Ended, reply.Body)
	}
	fmt.Fprintf(&text, "closed %v, goaway %v", o.replies.Closed, o.replies.GoAway)
	return text.String()
}
