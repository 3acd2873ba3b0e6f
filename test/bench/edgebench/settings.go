package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/test/bench/ground"
)

// Bounds of a run. Longer or more rounds would be a load test, which a shared
// machine is not suited for. Warm-up is not counted.
const (
	maxDuration = time.Minute
	maxRounds   = 100
	warmUp      = 2 * time.Second
	// turnSlack bounds starting, probing and stopping one proxy; some take long
	// to load ten thousand routes.
	turnSlack = 2 * time.Minute
)

// settings holds the parsed and validated flags.
type settings struct {
	duration  time.Duration
	rounds    int
	scenarios []scenario
	peers     []peer
	profile   string // file for a profile of slipway; empty makes none
	jsonFile  string
	// instructions runs the proxies in an emulator that counts.
	instructions bool
	// syscalls counts the system calls per request, memory measures memory only.
	syscalls, memory bool
	// idle is how many idle connections memory is measured with.
	idle int
	// scaling measures each proxy on one CPU and on two.
	scaling bool
}

// parseSettings parses and validates the flags.
func parseSettings(args []string, log io.Writer) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet("edgebench", flag.ContinueOnError)
	flags.DurationVar(&s.duration, "duration", 2*time.Second, "how long a turn of a proxy lasts, whole seconds")
	flags.IntVar(&s.rounds, "rounds", 9, "how often the proxies take their turn")
	flags.StringVar(&s.profile, "profile", "", "write a CPU profile of slipway to this `file`, or with -instructions a table of functions; needs one scenario, measures slipway only, once")
	flags.BoolVar(&s.instructions, "instructions", false, "run the proxies in an emulator and count the instructions per request: slow, and the same on a busy machine")
	flags.BoolVar(&s.syscalls, "syscalls", false, "count the system calls per request with strace: the other figures are then meaningless")
	flags.BoolVar(&s.memory, "memory", false, "measure memory only: at rest, for each idle connection and with 10,000 active ones, or as many as open files allow")
	flags.IntVar(&s.idle, "idle", 5000, "how many idle connections -memory opens, or as many as open files allow")
	flags.BoolVar(&s.scaling, "scaling", false, "measure each proxy on one CPU and on two; the scenarios are "+scalingScenarios+" unless others are chosen")
	flags.StringVar(&s.jsonFile, "json", "", "write everything that was measured to this `file` too")
	chosen := flags.String("scenario", "all", "scenarios, with commas: all or some of "+strings.Join(scenarioNames(), ", "))
	only := flags.String("only", "", "proxies, with commas; empty is all: "+strings.Join(peerNames(housePeers("")), ","))
	slipway := flags.String("slipway", filepath.Join("bin", "slipway"), "the slipway program to measure")
	var also []string
	ground.ListVar(flags, &also, "also", "measure slipway once more, as `name=[VARIABLE=value ...] [program]`: another build, or another environment")
	err := ground.ParseFlags(flags, args, log)
	if err != nil {
		return nil, err
	}
	// wrk and h2load take whole seconds only.
	if s.duration < time.Second || s.duration > maxDuration || s.duration%time.Second != 0 {
		return nil, fmt.Errorf("-duration is %s; it must be whole seconds, from 1s to %s", s.duration, maxDuration)
	}
	if s.rounds < 1 || s.rounds > maxRounds {
		return nil, fmt.Errorf("-rounds is %d; it must be from 1 to %d", s.rounds, maxRounds)
	}
	if s.idle < 1 || s.idle > maxIdle {
		return nil, fmt.Errorf("-idle is %d; it must be from 1 to %d", s.idle, maxIdle)
	}
	if s.scaling && (s.memory || s.instructions || s.profile != "") {
		return nil, errors.New("-scaling cannot be combined with -memory, -instructions or -profile")
	}
	if s.scaling && *chosen == "all" {
		*chosen = scalingScenarios
	}
	if s.scenarios, err = chooseScenarios(*chosen); err != nil {
		return nil, err
	}
	if s.peers, err = choosePeers(*only, *slipway, also); err != nil {
		return nil, err
	}
	if s.scaling {
		s.peers = scaled(s.peers)
	}
	if s.profile != "" {
		return s, s.forProfile()
	}
	return s, nil
}

// forProfile narrows the run to one turn of slipway in one scenario: a second
// turn would overwrite the profile.
func (s *settings) forProfile() error {
	if len(s.scenarios) != 1 {
		return errors.New("-profile needs one scenario: choose it with -scenario")
	}
	s.peers = slices.DeleteFunc(s.peers, func(p peer) bool { return p.name != slipwayName })
	if len(s.peers) != 1 {
		return errors.New("-profile is of slipway, which -only leaves out")
	}
	s.rounds = 1
	return nil
}

// expected returns the approximate duration of the run, for the heading.
func (s *settings) expected() time.Duration {
	return time.Duration(len(s.scenarios)*len(s.peers)) * (time.Duration(s.rounds)*s.duration + warmUp + time.Second)
}

// longest returns the timeout of the whole run, with the full slack for every
// start and every turn.
func (s *settings) longest() time.Duration {
	starts := time.Duration(len(s.scenarios) * len(s.peers))
	return starts*(time.Duration(s.rounds)*(s.duration+loadGrace)+warmUp+turnSlack) + time.Minute
}

// splitNames splits a comma-separated flag value, drops duplicates and rejects
// unknown names with the list of valid ones.
func splitNames(flagName, text string, known []string) ([]string, error) {
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("-%s: %q is not known; choose from %s", flagName, name, strings.Join(known, ", "))
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// chooseScenarios returns the selected scenarios in their defined order
// regardless of the order in the flag.
func chooseScenarios(text string) ([]scenario, error) {
	all := houseScenarios()
	if text == "all" {
		return all, nil
	}
	names, err := splitNames("scenario", text, scenarioNames())
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(s scenario) bool { return !slices.Contains(names, s.name) }), nil
}

// choosePeers returns the selected proxies in their defined order, with those
// of -also last. A duplicate name is an error, because the report identifies
// proxies by name.
func choosePeers(only, slipway string, also []string) ([]peer, error) {
	all := housePeers(slipway)
	for _, text := range also {
		p, err := parseAlso(text, slipway)
		if err != nil {
			return nil, err
		}
		if slices.Contains(peerNames(all), p.name) {
			return nil, fmt.Errorf("-also: there is a proxy %q already; choose another name", p.name)
		}
		all = append(all, p)
	}
	if only == "" {
		return all, nil
	}
	names, err := splitNames("only", only, peerNames(all))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(p peer) bool { return !slices.Contains(names, p.name) }), nil
}

// parseAlso parses name=[VARIABLE=value ...] [program]. The program defaults to
// that of -slipway, so that two environments of one build can be compared.
func parseAlso(text, program string) (peer, error) {
	name, rest, ok := strings.Cut(text, "=")
	if !ok || name == "" || strings.ContainsAny(name, ", \t/") {
		return peer{}, fmt.Errorf("-also %q: write name=[VARIABLE=value ...] [program], such as gogc400=GOGC=400", text)
	}
	var environment []string
	fields := strings.Fields(rest)
	for i, field := range fields {
		if strings.Contains(field, "=") {
			environment = append(environment, field)
			continue
		}
		if i != len(fields)-1 {
			return peer{}, fmt.Errorf("-also %q: the program comes last, and there is only one", text)
		}
		program = field
	}
	return slipwayPeer(name, program, environment), nil
}
