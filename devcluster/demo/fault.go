package demo

import (
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// Set by the images of bad versions. ERRORS and DELAY, which belong to the
	// container, override them.
	envErrors = "SLIPWAY_DEMO_ERRORS"
	envDelay  = "SLIPWAY_DEMO_DELAY"
)

// badVersions are tags of versions that misbehave, to show what happens to a
// release of one. Their probes succeed: a bad version that is not ready gets no
// requests.
var badVersions = map[string]Image{
	"v-bad":  {Colour: "black", Env: []string{envErrors + "=5"}},
	"v-slow": {Colour: "dimgray", Env: []string{envDelay + "=300ms"}},
}

// fault makes a server misbehave. The zero value does not.
type fault struct {
	percent float64 // of the requests fail
	delay   time.Duration
	served  atomic.Uint64
}

// newFault reads the environment: a percentage of errors and a delay.
func newFault(getenv func(string) string) (*fault, error) {
	f := &fault{}
	if name, text := first(getenv, "ERRORS", envErrors); text != "" {
		percent, err := strconv.ParseFloat(text, 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return nil, fmt.Errorf("%s=%q: want a percentage from 0 to 100", name, text)
		}
		f.percent = percent
	}
	if name, text := first(getenv, "DELAY", envDelay); text != "" {
		delay, err := time.ParseDuration(text)
		if err != nil || delay < 0 || delay > maxSleep {
			return nil, fmt.Errorf("%s=%q: want a duration from 0s to %s, such as 300ms", name, text, maxSleep)
		}
		f.delay = delay
	}
	return f, nil
}

// first returns the first variable that is set.
func first(getenv func(string) string, names ...string) (name, value string) {
	for _, name := range names {
		if value := getenv(name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// fails counts a request and reports whether it is one of those that fail. They
// are spread evenly and not at random, so that the share is exact after few
// requests.
func (f *fault) fails() bool {
	if f.percent == 0 {
		return false
	}
	n := float64(f.served.Add(1))
	return int64(n*f.percent/100) > int64((n-1)*f.percent/100)
}

// applies delays a request, and reports whether it was handled with an error.
func (f *fault) applies(w http.ResponseWriter, r *http.Request) bool {
	if f.delay > 0 && !wait(r, f.delay) {
		w.WriteHeader(statusClientGone)
		return true
	}
	if !f.fails() {
		return false
	}
	http.Error(w, fmt.Sprintf("this version fails %g %% of its requests", f.percent), http.StatusInternalServerError)
	return true
}

// controls are the paths that never fail: probes, and what a person switches.
func controls(path string) bool {
	switch path {
	case "/healthz", "/readyz", "/ready", "/unready", "/exit":
		return true
	}
	return false
}
