package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
)

func TestParseLoad(t *testing.T) {
	micros := func(n float64) time.Duration { return time.Duration(n * float64(time.Microsecond)) }
	tests := []struct {
		file  string
		parse func(string) (outcome, error)
		want  outcome
		err   error
	}{
		{"wrk.txt", parseWrk, outcome{requests: 129574, rate: 129410.55, p50: micros(356), p99: micros(691)}, nil},
		{"wrk-503.txt", parseWrk, outcome{requests: 115546, errors: 115546, rate: 105086.81, p50: micros(74), p99: micros(166)}, nil},
		{"wrk-closed.txt", parseWrk, outcome{errors: 25114}, errNoRequests},
		{"wrk-some.txt", parseWrk, outcome{requests: 912, errors: 7 + 1 + 2 + 3 + 4, rate: 0.5, p50: micros(1500), p99: 2 * time.Second}, nil},
		{"wrk-slow.txt", parseWrk, outcome{requests: 912, rate: 0.5, p50: 1010 * time.Millisecond, p99: 66 * time.Second}, nil},
		{"h2load.txt", parseH2load, outcome{requests: 83986, rate: 83986}, nil},
		{"h2load-503.txt", parseH2load, outcome{requests: 77486, errors: 77486, rate: 77486}, nil},
		{"h2load-closed.txt", parseH2load, outcome{requests: 275624, errors: 275624}, errNoRequests},
	}
	for _, test := range tests {
		t.Run(test.file, func(t *testing.T) {
			got, err := test.parse(testText(t, test.file))
			if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("got %+v, %v; want %+v, %v", got, err, test.want, test.err)
			}
		})
	}
}

// A program that prints something else is not a program without requests.
func TestParseLoadRefuses(t *testing.T) {
	for _, text := range []string{"", "Running 1s test @ http://localhost/\n", "finished in 1.00s, 5.00 req/s, 6MB/s\n"} {
		if got, err := parseWrk(text); err == nil || errors.Is(err, errNoRequests) {
			t.Errorf("wrk %q: got %+v, %v", text, got, err)
		}
		if got, err := parseH2load(text); err == nil || errors.Is(err, errNoRequests) {
			t.Errorf("h2load %q: got %+v, %v", text, got, err)
		}
	}
}

func TestParseH2loadTimes(t *testing.T) {
	file := must.Get(os.Open("testdata/h2load.log"))(t)
	defer file.Close()
	times, err := parseH2loadTimes(file)
	if err != nil || len(times) != 200 {
		t.Fatalf("%d times, %v", len(times), err)
	}
	if times[0] != 357*time.Microsecond {
		t.Errorf("the first took %s", times[0])
	}
}

func TestPercentile(t *testing.T) {
	times := make([]time.Duration, 0, 200)
	for i := 200; i > 0; i-- {
		times = append(times, time.Duration(i))
	}
	for percent, want := range map[int]time.Duration{1: 2, 50: 100, 99: 198, 100: 200} {
		if got := percentile(times, percent); got != want {
			t.Errorf("%d%%: got %d, want %d", percent, got, want)
		}
	}
	if got := percentile([]time.Duration{7}, 50); got != 7 {
		t.Errorf("of one: got %d", got)
	}
	if got := percentile(nil, 50); got != 0 {
		t.Errorf("of none: got %d", got)
	}
}

func testText(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
	return string(text)
}
