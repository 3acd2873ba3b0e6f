package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/test/bench/ground"
)

// Bounds of the flags. The maximum size is bounded by the addresses of the pod
// network, of which each application has two.
const (
	maxSize     = 30_000
	maxSamples  = 10_000
	maxRate     = 100
	maxDuration = time.Minute
	maxRounds   = 200
	maxGateways = 10_000
	// shortestLoad is the minimum length of a turn; in a shorter one, opening
	// connections would be a significant part.
	shortestLoad = 200 * time.Millisecond
)

// settings holds the parsed and validated flags.
type settings struct {
	sizes    []int // ascending
	samples  int   // changes of each kind
	rate     int   // changes per second
	settle   time.Duration
	duration time.Duration // of one load
	rounds   int

	only []string // the optional phases that are run; empty is all
	peer string   // a proxy that gets the same loads; empty is none

	tls     bool
	status  bool
	nginx   bool // Ingresses of ingress-nginx
	gateway bool // HTTPRoutes of a Gateway in the place of Ingresses
	fsync   bool // the database of the cluster waits for the disk
	// gateways is the number of further Gateways that phaseListeners creates.
	gateways int

	ground.Settings
}

// parseSettings parses and validates the flags.
func parseSettings(args []string, log io.Writer) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	sizes := flags.String("sizes", "1000,5000,10000", "numbers of Ingresses, ascending, with commas")
	flags.IntVar(&s.samples, "samples", 300, "how many changes of each kind are measured at each size")
	flags.IntVar(&s.rate, "rate", 10, "most changes per second")
	flags.DurationVar(&s.settle, "settle", 10*time.Second, "how long the edge is left alone before its memory is read")
	flags.DurationVar(&s.duration, "duration", 500*time.Millisecond, "how long each turn of a measured load lasts")
	flags.IntVar(&s.rounds, "rounds", 60, "how often the loads take their turn")
	only := flags.String("only", "", "measure only these of the phases "+strings.Join(optionalPhases(), ", ")+", with commas")
	flags.StringVar(&s.peer, "peer", "", "give the same loads to another proxy too: nginx")
	flags.BoolVar(&s.tls, "tls", false, "give each Ingress a certificate in its own Secret, and send requests over TLS")
	flags.BoolVar(&s.status, "status", false, "let the edge write an address into the status of each Ingress")
	flags.BoolVar(&s.nginx, "nginx", false, "write Ingresses of ingress-nginx, with annotations that most of them have")
	flags.BoolVar(&s.gateway, "gateway", false, "write HTTPRoutes of one Gateway in the place of Ingresses")
	flags.BoolVar(&s.fsync, "fsync", true, "let the API server wait for the disk at each write; without it, other load of the disk delays no change")
	flags.IntVar(&s.gateways, "gateways", 1000, "with -gateway, how many further Gateways there are when listeners come and go")
	s.Register(flags, "edge")
	err := ground.ParseFlags(flags, args, log)
	if err != nil {
		return nil, err
	}
	if s.sizes, err = parseSizes(*sizes); err != nil {
		return nil, err
	}
	if s.only, err = parsePhases(*only); err != nil {
		return nil, err
	}
	return s, s.check()
}

// parsePhases parses the value of -only. Empty selects all phases.
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

// measures reports whether a phase is selected. Phases that are not optional
// always are; beside and listeners need Gateways.
func (s *settings) measures(phase string) bool {
	if (phase == phaseBeside || phase == phaseListeners) && !s.gateway {
		return false
	}
	return len(s.only) == 0 || slices.Contains(s.only, phase) || !slices.Contains(optionalPhases(), phase)
}

// parseSizes parses the value of -sizes.
func parseSizes(text string) ([]int, error) {
	sizes, err := ground.ParseSizes(text, maxSize)
	// One cluster serves all sizes, and it only grows.
	if err == nil && !slices.IsSorted(sizes) {
		err = fmt.Errorf("-sizes is %s; the sizes must ascend", text)
	}
	return sizes, err
}

// check validates the values that the flag package cannot.
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
	case s.gateway && (s.tls || s.status):
		return errors.New("-gateway has neither -tls nor -status: the listener is plain, and Gateways and routes always have a status")
	case s.gateway && s.nginx:
		return errors.New("-gateway and -nginx are two forms of the same routes; choose one")
	case s.gateways < 1 || s.gateways > maxGateways:
		return fmt.Errorf("-gateways is %d; it must be from 1 to %d", s.gateways, maxGateways)
	case s.rounds < 1 || s.rounds > maxRounds:
		return fmt.Errorf("-rounds is %d; it must be from 1 to %d", s.rounds, maxRounds)
	}
	return nil
}

// pace returns the interval between two changes.
func (s *settings) pace() time.Duration { return time.Second / time.Duration(s.rate) }

// longest returns the timeout of the whole run, with slack for a busy machine.
func (s *settings) longest() time.Duration {
	const (
		start  = 5 * time.Minute        // of the cluster and the edges
		object = 100 * time.Millisecond // to create one
		slack  = 5                      // a busy machine
	)
	changes := time.Duration(4*s.samples) * s.pace()
	// The factors approximate the number of loads per round and of warm-ups;
	// the slack below covers the rest.
	loads := time.Duration(13*s.rounds)*s.duration + 6*max(s.duration, loadHosts*time.Millisecond)
	each := start + 2*s.settle + slack*(changes+loads)
	if s.gateway {
		each += slack * time.Duration(6*s.gateways) * object
	}
	return time.Duration(len(s.sizes))*each + time.Duration(4*slices.Max(s.sizes))*object
}
