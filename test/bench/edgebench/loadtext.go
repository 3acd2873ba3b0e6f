package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Expressions for the output of wrk and h2load. The lines for errors appear
// only if there were any. wrk fills a column up behind units of one letter.
var (
	wrkRequests  = regexp.MustCompile(`(?m)^ +(\d+) requests in `)
	wrkRate      = regexp.MustCompile(`(?m)^Requests/sec: +([\d.]+)`)
	wrkStatus    = regexp.MustCompile(`(?m)^ +Non-2xx or 3xx responses: (\d+)`)
	wrkSocket    = regexp.MustCompile(`(?m)^ +Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
	wrkLatency   = regexp.MustCompile(`(?m)^ +(50|99)% +([\d.]+)(us|ms|s|m|h) *$`)
	h2Rate       = regexp.MustCompile(`(?m)^finished in [^,]+, ([\d.]+) req/s`)
	h2Requests   = regexp.MustCompile(`(?m)^requests: \d+ total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed`)
	h2StatusLine = regexp.MustCompile(`(?m)^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx`)
)

// errNoRequests is the error of a load without a single response, which has no
// percentiles and no CPU time per request.
var errNoRequests = errors.New("no request got a response")

// parseWrk parses the output of wrk --latency. Responses other than 2xx and 3xx
// are errors, and so are connection errors and timeouts.
func parseWrk(text string) (outcome, error) {
	var o outcome
	// Output in another form is an error rather than zero, so that a new
	// version of the tool cannot pass for a slow proxy.
	requests, rate := wrkRequests.FindStringSubmatch(text), wrkRate.FindStringSubmatch(text)
	if requests == nil || rate == nil {
		return o, fmt.Errorf("this is not what wrk prints: %q", text)
	}
	o.requests = sum(requests[1:])
	if match := wrkStatus.FindStringSubmatch(text); match != nil {
		o.errors += sum(match[1:])
	}
	if match := wrkSocket.FindStringSubmatch(text); match != nil {
		o.errors += sum(match[1:])
	}
	if o.requests == 0 {
		return o, fmt.Errorf("wrk: %w; %d connections broke", errNoRequests, o.errors)
	}
	var err error
	if o.rate, err = strconv.ParseFloat(rate[1], 64); err != nil {
		return o, err
	}
	for _, match := range wrkLatency.FindAllStringSubmatch(text, -1) {
		took, err := time.ParseDuration(match[2] + match[3])
		if err != nil {
			return o, err
		}
		if match[1] == "50" {
			o.p50 = took
		} else {
			o.p99 = took
		}
	}
	// Without --latency, or with a changed format, there is nothing to report.
	if o.p50 == 0 || o.p99 == 0 {
		return o, fmt.Errorf("wrk printed no percentiles: %q", text)
	}
	return o, nil
}

// parseH2load parses the summary of h2load for a load of fixed duration. Its
// failed count includes connection errors, timeouts and responses other than
// 2xx and 3xx.
func parseH2load(text string) (outcome, error) {
	var o outcome
	rate, requests := h2Rate.FindStringSubmatch(text), h2Requests.FindStringSubmatch(text)
	if rate == nil || requests == nil || !h2StatusLine.MatchString(text) {
		return o, fmt.Errorf("this is not what h2load prints: %q", text)
	}
	o.requests, o.errors = sum(requests[1:2]), sum(requests[3:4])
	var err error
	if o.rate, err = strconv.ParseFloat(rate[1], 64); err != nil {
		return o, err
	}
	// h2load counts requests on broken connections as done, so only the status
	// line shows whether there was a response at all.
	if responded := sum(h2StatusLine.FindStringSubmatch(text)[1:]); responded == 0 {
		return o, fmt.Errorf("h2load: %w; %d failed", errNoRequests, o.errors)
	}
	return o, nil
}

// parseH2loadTimes parses the log of h2load, which has the start time, the
// status and the duration in microseconds of each request.
func parseH2loadTimes(r io.Reader) ([]time.Duration, error) {
	var times []time.Duration
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) < 3 {
			return nil, fmt.Errorf("not a line of the log: %q", lines.Text())
		}
		took, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			return nil, err
		}
		times = append(times, time.Duration(took)*time.Microsecond)
	}
	return times, lines.Err()
}

// percentile returns the smallest of the times that the given share of them
// does not exceed (nearest rank). It sorts times in place.
func percentile(times []time.Duration, percent int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[max(0, (len(times)*percent+99)/100-1)]
}

// sum adds up the numbers of submatches.
func sum(digits []string) int64 {
	var total int64
	for _, text := range digits {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			n = 0 // the expressions find digits only; this many would be absurd
		}
		total += n
	}
	return total
}
