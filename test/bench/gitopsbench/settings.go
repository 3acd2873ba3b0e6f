package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/test/bench/ground"
)

const (
	// Bounds of the flags, which keep a mistyped value from occupying the
	// machine for hours.
	maxSize   = 10_000
	maxIdle   = time.Hour
	maxDrift  = 1000
	maxAgents = 10
)

// settings holds the parsed and validated flags.
type settings struct {
	sizes []int
	form  form
	idle  time.Duration
	drift int
	alone bool
	// agents are how many divide the Applications, one run of each size for each.
	agents []int

	ground.Settings
}

// parseSettings parses and validates the flags.
func parseSettings(args []string, log io.Writer) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	sizes := flags.String("sizes", "100,500,1000", "numbers of Applications, with commas; each has a cluster of its own")
	chosen := flags.String("form", string(directory), "what is in Git: directory, kustomize, helm or umbrella (50 charts with dependencies of a Helm repository)")
	flags.DurationVar(&s.idle, "idle", 10*time.Minute, "how long nothing happens")
	flags.IntVar(&s.drift, "drift", 100, "how many objects are changed in the cluster")
	flags.BoolVar(&s.alone, "alone", true, "measure what the API server alone takes for the writes of install")
	agents := flags.String("agents", "1", "how many agents divide the Applications, with commas to compare; one does not divide them")
	s.Register(flags, "agent")
	err := ground.ParseFlags(flags, args, log)
	if err != nil {
		return nil, err
	}
	if s.sizes, err = ground.ParseSizes(*sizes, maxSize); err != nil {
		return nil, err
	}
	if s.agents, err = parseAgents(*agents); err != nil {
		return nil, err
	}
	s.form = form(*chosen)
	return s, s.check()
}

// parseAgents parses numbers with commas. The first is the one that the others are
// compared with.
func parseAgents(text string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		agents, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || agents < 1 || agents > maxAgents {
			return nil, fmt.Errorf("-agents: %q is not a number from 1 to %d", part, maxAgents)
		}
		all = append(all, agents)
	}
	return all, nil
}

// check validates the values that the flag package cannot.
func (s *settings) check() error {
	switch {
	case !slices.Contains(forms(), s.form):
		return fmt.Errorf("-form is %q; it is one of %v", s.form, forms())
	case s.idle < 0 || s.idle > maxIdle:
		return fmt.Errorf("-idle is %s; it must be at most %s", s.idle, maxIdle)
	case s.drift < 1 || s.drift > maxDrift:
		return fmt.Errorf("-drift is %d; it must be from 1 to %d", s.drift, maxDrift)
	}
	return nil
}

// longest returns the timeout of the whole run. It is generous: each size is
// allowed the time of all of them.
func (s *settings) longest() time.Duration {
	each := 15*time.Minute + s.idle
	for _, size := range s.sizes {
		each += time.Duration(size) * time.Second
	}
	return time.Duration(len(s.sizes)*len(s.agents)) * each
}
