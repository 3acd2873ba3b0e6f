package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What one run may ask for. The largest size is what the Pod network has
// addresses for.
const (
	maxSize     = 30_000
	maxSamples  = 10_000
	maxRate     = 100
	maxDuration = time.Minute
	maxRounds   = 200
	// shortestLoad is long enough that making the connections is a small part.
	shortestLoad = 200 * time.Millisecond
)

var errHelp = errors.New("help was asked for")

// settings is what the flags say.
type settings struct {
	sizes    []int // ascending
	samples  int   // changes of each kind
	rate     int   // changes per second
	settle   time.Duration
	duration time.Duration // of one load
	rounds   int

	only []string // the optional phases that are run; empty is all
	peer string   // a proxy that gets the same loads; empty is none

	tls    bool
	status bool

	slipway, devcluster string
	options             []string // further ones of the edge
	environment         []string // of the edge

	profile  string // folder for profiles; empty makes none
	jsonFile string
}

// parseSettings reads the flags. It complains itself about those it does not
// know.
func parseSettings(args []string, complain io.Writer) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet("ingressbench", flag.ContinueOnError)
	flags.SetOutput(complain)
	sizes := flags.String("sizes", "1000,5000,10000", "numbers of Ingresses, ascending, with commas")
	flags.IntVar(&s.samples, "samples", 300, "how many changes of each kind are measured at each size")
	flags.IntVar(&s.rate, "rate", 10, "most changes per second")
	flags.DurationVar(&s.settle, "settle", 10*time.Second, "how long the edge is left alone before its memory is read")
	flags.DurationVar(&s.duration, "duration", 500*time.Millisecond, "how long each turn of a measured load lasts")
	flags.IntVar(&s.rounds, "rounds", 60, "how often the loads take their turn")
	only := flags.String("only", "", "measure only these of the phases "+strings.Join(optionalPhases(), ", ")+", with commas")
	flags.StringVar(&s.peer, "peer", "", "give the same loads to another proxy too: nginx")
	flags.BoolVar(&s.tls, "tls", false, "give each Ingress a certificate in a Secret of its own, and ask over TLS")
	flags.BoolVar(&s.status, "status", false, "let the edge write an address into the status of each Ingress")
	flags.StringVar(&s.slipway, "slipway", filepath.Join("bin", "slipway"), "the slipway program to measure")
	flags.StringVar(&s.devcluster, "devcluster", filepath.Join("bin", "slipway-devcluster"), "the development cluster")
	flags.Func("option", "further `option` of the edge, such as --lastGood.dir=/tmp/x; may be given several times",
		func(text string) error { s.options = append(s.options, text); return nil })
	flags.Func("env", "`VARIABLE=value` for the edge, such as GOGC=50; may be given several times",
		func(text string) error { s.environment = append(s.environment, text); return nil })
	flags.StringVar(&s.profile, "profile", "", "write profiles of the edge into this `folder`; they cost CPU time that is counted")
	flags.StringVar(&s.jsonFile, "json", "", "write everything that was measured to this `file` too")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil, errHelp
	case err != nil:
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("%q is not a flag; see -help", flags.Arg(0))
	}
	var err error
	if s.sizes, err = parseSizes(*sizes); err != nil {
		return nil, err
	}
	if s.only, err = parsePhases(*only); err != nil {
		return nil, err
	}
	return s, s.check()
}

func parsePhases(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	var phases []string
	for part := range strings.SplitSeq(text, ",") {
		phase := strings.TrimSpace(part)
		if !slices.Contains(optionalPhases(), phase) {
			return nil, fmt.Errorf("-only: %q is none of %s", part, strings.Join(optionalPhases(), ", "))
		}
		phases = append(phases, phase)
	}
	return phases, nil
}

// measures reports whether a phase is run.
func (s *settings) measures(phase string) bool {
	return len(s.only) == 0 || slices.Contains(s.only, phase) || !slices.Contains(optionalPhases(), phase)
}

func parseSizes(text string) ([]int, error) {
	var sizes []int
	for part := range strings.SplitSeq(text, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || size < 1 || size > maxSize {
			return nil, fmt.Errorf("-sizes: %q is not a number from 1 to %d", part, maxSize)
		}
		sizes = append(sizes, size)
	}
	// The cluster only grows.
	if !slices.IsSorted(sizes) {
		return nil, fmt.Errorf("-sizes is %s; the sizes must ascend", text)
	}
	return sizes, nil
}

func (s *settings) check() error {
	switch {
	case s.samples < 1 || s.samples > maxSamples:
		return fmt.Errorf("-samples is %d; it must be from 1 to %d", s.samples, maxSamples)
	case s.rate < 1 || s.rate > maxRate:
		return fmt.Errorf("-rate is %d; it must be from 1 to %d", s.rate, maxRate)
	case s.settle < 0 || s.settle > maxDuration:
		return fmt.Errorf("-settle is %s; it must be at most %s", s.settle, maxDuration)
	case s.duration < shortestLoad || s.duration > maxDuration:
		return fmt.Errorf("-duration is %s; it must be from %s to %s", s.duration, shortestLoad, maxDuration)
	case s.peer != "" && s.peer != nginxName:
		return fmt.Errorf("-peer is %q; only %s is known", s.peer, nginxName)
	case s.rounds < 1 || s.rounds > maxRounds:
		return fmt.Errorf("-rounds is %d; it must be from 1 to %d", s.rounds, maxRounds)
	}
	return nil
}

// pace is the time between two changes.
func (s *settings) pace() time.Duration { return time.Second / time.Duration(s.rate) }

// longest is when the run is given up.
func (s *settings) longest() time.Duration {
	const (
		start  = 5 * time.Minute        // of the cluster and the edges
		object = 100 * time.Millisecond // to create one
		slack  = 5                      // a busy machine
	)
	changes := time.Duration(4*s.samples) * s.pace()
	// Eleven loads take turns, and six warm up, for as long as all hosts need.
	loads := time.Duration(11*s.rounds)*s.duration + 6*max(s.duration, loadHosts*time.Millisecond)
	each := start + 2*s.settle + slack*(changes+loads)
	return time.Duration(len(s.sizes))*each + time.Duration(4*slices.Max(s.sizes))*object
}
