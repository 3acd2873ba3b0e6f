package main

import (
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"slipway.dev/slipway/test/bench/ground"
)

// settings holds the parsed and validated flags.
type settings struct {
	runtimes     []int
	applications int
	steady, down time.Duration
	changes      int
	slipway      string
	options      []string
	environment  []string
	jsonFile     string
}

// Bounds of the flags, which keep a mistyped value from occupying the machine
// for hours.
const (
	maxRuntimes     = 5000
	maxApplications = 1000
	maxPause        = time.Hour
	maxChanges      = 10_000
)

// parseSettings parses and validates the flags.
func parseSettings(args []string, log io.Writer) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	sizes := flags.String("runtimes", "100,1000", "numbers of runtimes, with commas; each has a platform of its own")
	flags.IntVar(&s.applications, "applications", 100, "Applications of each runtime")
	flags.DurationVar(&s.steady, "steady", time.Minute, "how long there are only heartbeats")
	flags.DurationVar(&s.down, "down", 5*time.Second, "how long the platform is away when it is restarted")
	flags.IntVar(&s.changes, "changes", 50, "how many changes of single Applications are measured")
	flags.StringVar(&s.slipway, "slipway", filepath.Join("bin", "slipway"), "the slipway program to measure")
	ground.ListVar(flags, &s.options, "option", "further `option` of the platform, such as --database.url=…")
	ground.ListVar(flags, &s.environment, "env", "`VARIABLE=value` for the platform, such as GOGC=50")
	flags.StringVar(&s.jsonFile, "json", "", "write everything that was measured to this `file` too")
	if err := ground.ParseFlags(flags, args, log); err != nil {
		return nil, err
	}
	var err error
	if s.runtimes, err = ground.ParseSizes(*sizes, maxRuntimes); err != nil {
		return nil, fmt.Errorf("-runtimes: %w", err)
	}
	switch {
	case s.applications < 1 || s.applications > maxApplications:
		return nil, fmt.Errorf("-applications is %d; it must be from 1 to %d", s.applications, maxApplications)
	case s.steady < 0 || s.steady > maxPause || s.down < 0 || s.down > maxPause:
		return nil, fmt.Errorf("-steady and -down must be at most %s", maxPause)
	case s.changes < 1 || s.changes > maxChanges:
		return nil, fmt.Errorf("-changes is %d; it must be from 1 to %d", s.changes, maxChanges)
	}
	return s, nil
}

// longest returns the timeout of the whole run, which ends one that hangs.
func (s *settings) longest() time.Duration {
	total := time.Duration(0)
	for range s.runtimes {
		total += 30*time.Minute + s.steady + s.down
	}
	return total
}

// text describes the settings that affect results.
func (s *settings) text() string {
	words := append([]string{fmt.Sprintf("%d Applications of each runtime, away for %s", s.applications, s.down)}, s.environment...)
	return strings.Join(append(words, s.options...), " ")
}
