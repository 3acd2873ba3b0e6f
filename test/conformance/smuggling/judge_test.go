package smuggling

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// evidence is what is known about the cases of one backend, by nonce.
type evidence struct {
	written  map[string][]forwarded // by the edge
	received map[string][]record    // by the backend
}

// gather sorts what a tap and a ledger have by nonce. Requests that belong to
// no case are a finding: no client sent them.
func gather(p *tap, l *ledger) (evidence, []error) {
	e := evidence{written: map[string][]forwarded{}, received: map[string][]record{}}
	var problems []error
	for _, f := range p.flows {
		requests, err := f.requests()
		if err != nil {
			problems = append(problems, fmt.Errorf("what the edge wrote has more than one reading: %w", err))
		}
		for _, r := range requests {
			mark := nonceOf(r.record)
			if mark == "" && r.complete {
				problems = append(problems, fmt.Errorf("the edge wrote a request of nobody: %s", r.record))
			}
			if r.disguise != nil {
				problems = append(problems, fmt.Errorf("what the edge wrote has more than one reading: %w", r.disguise))
			}
			e.written[mark] = append(e.written[mark], r)
		}
	}
	for mark := range e.written {
		slices.SortFunc(e.written[mark], func(a, b forwarded) int { return a.turn - b.turn })
	}
	for _, r := range l.records {
		mark := nonceOf(r)
		if mark == "" {
			problems = append(problems, fmt.Errorf("the backend received a request of nobody: %s", r))
		}
		e.received[mark] = append(e.received[mark], r)
	}
	return e, problems
}

// answer is one response that a client got.
type answer struct {
	status int
	seen   *record // what the backend says it answers; nil for others
}

// answers reads the responses to requests with these methods, and then any
// that are left.
func answers(got []byte, requests []forwarded) ([]answer, error) {
	var all []answer
	text := bufio.NewReader(bytes.NewReader(got))
	for {
		if _, err := text.Peek(1); err != nil {
			return all, nil
		}
		method := http.MethodGet
		if len(all) < len(requests) {
			method = requests[len(all)].Method
		}
		response, err := http.ReadResponse(text, &http.Request{Method: method})
		if err != nil {
			return all, err
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if errors.Is(err, io.ErrUnexpectedEOF) && len(body) == 0 && len(all) >= len(requests) {
			err = nil // an error in answer to HEAD
		}
		if err != nil {
			return all, err
		}
		if response.StatusCode < 200 {
			continue
		}
		a := answer{status: response.StatusCode}
		var seen record
		if json.Unmarshal(body, &seen) == nil {
			a.seen = &seen
		}
		all = append(all, a)
	}
}

// tally counts how cases ended, to show that a run was not all of one kind.
type tally struct{ served, refused, dropped, declined int }

// judge finds everything that is wrong with the outcome of a case.
func (e evidence) judge(o outcome, count *tally) []error {
	if o.err != nil {
		return []error{o.err}
	}
	whole := slices.DeleteFunc(slices.Clone(e.written[o.nonce]), func(r forwarded) bool { return !r.complete })
	replies, err := answers(o.got, e.written[o.nonce])
	if err != nil {
		return []error{fmt.Errorf("what came back cannot be read: %w", err)}
	}
	problems := checkRequests(whole, o)
	declined, err := e.checkReceived(whole, replies, o)
	if err != nil {
		problems = append(problems, err)
	}
	count.declined += declined
	extra := replies[min(len(whole), len(replies)):]
	refused := len(extra) == 1 && extra[0].status >= 400 && extra[0].seen == nil
	canaries := slices.ContainsFunc(whole, func(r forwarded) bool { return strings.HasPrefix(r.Target, "/canary-") })
	switch {
	case len(replies) < len(whole):
		problems = append(problems, fmt.Errorf("%d answers for %d requests", len(replies), len(whole)))
	case len(extra) > 0 && !refused:
		problems = append(problems, fmt.Errorf("%d answers for %d requests: %+v", len(replies), len(whole), extra))
	case refused && canaries:
		problems = append(problems, errors.New("it was refused, and the canary was served"))
	case o.sample.want == refuse && !refused:
		problems = append(problems, errors.New("it has to be refused, and was not"))
	case o.sample.want == serve && (!canaries || declined > 0):
		problems = append(problems, fmt.Errorf("it has to be served, and was not: %+v", extra))
	}
	switch {
	case canaries:
		count.served++
	case refused:
		count.refused++
	default:
		count.dropped++
	}
	return problems
}

// checkRequests looks at what the edge wrote for a case.
func checkRequests(whole []forwarded, o outcome) []error {
	var problems []error
	for i, r := range whole {
		switch {
		case strings.Contains(r.Target, "canary"):
			want := record{o.nonce, "GET", "/canary-" + o.nonce, site, 0, sumOf(nil)}
			if i != len(whole)-1 || !r.same(want) && !o.sample.loose {
				problems = append(problems, fmt.Errorf("the canary is request %d of %d: %s", i+1, len(whole), r.record))
			}
		case strings.Contains(r.Target, "hidden") && !o.sample.open:
			problems = append(problems, fmt.Errorf("the hidden request was passed on: %s", r.record))
		}
	}
	return problems
}

// checkReceived compares what the edge wrote with what the backend received and
// what the client got. A backend may decline a request that it does not
// like, a method for example, if it responds so to the client that sent it; declined
// is how many.
func (e evidence) checkReceived(whole []forwarded, replies []answer, o outcome) (declined int, err error) {
	received := e.received[o.nonce]
	for i, r := range whole {
		if i >= len(replies) {
			break
		}
		if len(received) == 0 || !received[0].same(r.record) {
			if replies[i].status < 400 || replies[i].seen != nil {
				return declined, fmt.Errorf("the edge wrote %s, the backend received %v", r.record, received)
			}
			declined++
			continue
		}
		received = received[1:]
		if r.Method != http.MethodHead && (replies[i].seen == nil || !replies[i].seen.same(r.record)) {
			return declined, fmt.Errorf("the answer to %s is that of %v", r.record, replies[i].seen)
		}
	}
	if len(received) > 0 {
		return declined, fmt.Errorf("the backend received what the edge did not write: %v", received)
	}
	return declined, nil
}

// nonceCut finds a nonce of which the end is missing, too.
var nonceCut = regexp.MustCompile(`q0[0-9a-f]*q?`)

// anonymous is a list of requests without their nonce, to compare backends.
func anonymous(requests []forwarded) string {
	var text strings.Builder
	for _, r := range requests {
		if r.complete {
			fmt.Fprintf(&text, "%s %s %s %q\n", r.Method, r.Target, r.Host, r.body)
		}
	}
	return nonceCut.ReplaceAllString(text.String(), stamp)
}
