package main

import (
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

func TestSettings(t *testing.T) {
	tests := []struct {
		name             string
		args             []string
		scenarios, peers string
		rounds           int
	}{
		{"all", nil, strings.Join(scenarioNames(), " "), "nginx haproxy caddy slipway", 9},
		{"some, in their own order", []string{"-only", "slipway,nginx", "-scenario", "tls-h1, h1"}, "h1 tls-h1", "nginx slipway", 9},
		{"another build", []string{"-only=slipway,old", "-also", "old=GOGC=400 A=b bin/old", "-scenario=h1", "-rounds=5"}, "h1", "slipway old", 5},
		{"scaling", []string{"-scaling", "-only=slipway,nginx"}, "h1 tls-h2", "nginx nginx slipway slipway", 9},
		{"scaling of a scenario", []string{"-scaling", "-only=slipway", "-scenario=h1-new"}, "h1-new", "slipway slipway", 9},
		{"a profile", []string{"-profile=out", "-scenario=h1"}, "h1", "slipway", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := must.Get(parseSettings(test.args, io.Discard))(t)
			var scenarios []string
			for _, sc := range s.scenarios {
				scenarios = append(scenarios, sc.name)
			}
			if got := strings.Join(scenarios, " "); got != test.scenarios {
				t.Errorf("scenarios %q, want %q", got, test.scenarios)
			}
			if got := strings.Join(peerNames(s.peers), " "); got != test.peers || s.rounds != test.rounds {
				t.Errorf("%d rounds of %q, want %d of %q", s.rounds, got, test.rounds, test.peers)
			}
		})
	}
}

func TestSettingsRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"whole seconds":          {"-duration=1500ms"},
		"-rounds is 0":           {"-rounds=0"},
		`"h4" is not known`:      {"-scenario=h4"},
		`"apache" is not known`:  {"-only=apache"},
		"needs one scenario":     {"-profile=x"},
		"which -only leaves out": {"-profile=x", "-scenario=h1", "-only=nginx"},
		"another name":           {"-also=nginx=A=b"},
		"the program comes last": {"-also=x=bin/old A=b"},
		"-idle is 0":             {"-memory", "-idle=0"},
		"cannot be combined":     {"-scaling", "-memory"},
		"is not a flag":          {"h1"},
	} {
		if _, err := parseSettings(args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", args, err, want)
		}
	}
}

func TestAlso(t *testing.T) {
	p, err := parseAlso("old=GOGC=400 A=b /bin/old", "bin/slipway")
	if err != nil || p.name != "old" || p.program != "/bin/old" {
		t.Fatalf("got %+v, %v", p, err)
	}
	command, err := p.prepare(&site{dir: t.TempDir(), address: "127.0.0.1:1", backend: "127.0.0.1:2", routes: []routeKey{{"localhost", "/"}}})
	if err != nil || command.Path != "/bin/old" || !slices.Equal(command.Env, []string{"GOGC=400", "A=b"}) {
		t.Errorf("got %+v, %v", command, err)
	}
}

// The routes of a site come in groups of one host, whole and in order.
func TestHosts(t *testing.T) {
	keys := scenario{routes: 25}.routeKeys()
	var got []routeKey
	groups := 0
	(&site{routes: keys}).hosts(func(host string, prefixes []string) {
		groups++
		for _, prefix := range prefixes {
			got = append(got, routeKey{host, prefix})
		}
	})
	if groups != 3 || !reflect.DeepEqual(got, keys) {
		t.Errorf("%d groups: %v", groups, got)
	}
}

func TestSpread(t *testing.T) {
	samples := func(values ...float64) (all []sample) {
		for _, v := range values {
			all = append(all, sample{CPUMicros: v})
		}
		return all
	}
	if got := spreadOf(samples(9, 1, 2), costOf); got != (spread{2, 1, 9}) {
		t.Errorf("of three: %v", got)
	}
	if got := spreadOf(samples(4, 1, 2, 9), costOf); got != (spread{3, 1, 9}) {
		t.Errorf("of four: %v", got)
	}
}

// A proxy that was skipped is not a failure; wrong responses are.
func TestFailed(t *testing.T) {
	for _, test := range []struct {
		proxy proxyResult
		want  bool
	}{
		{proxyResult{Samples: []sample{{Requests: 5}}}, false},
		{proxyResult{Skipped: "it cannot"}, false},
		{proxyResult{Samples: []sample{{Requests: 5}, {Requests: 5, Errors: 1}}}, true},
		{proxyResult{Failure: "it did not start"}, true},
	} {
		r := report{Scenarios: []*scenarioResult{{Proxies: []*proxyResult{&test.proxy}}}}
		if got := r.failed(); got != test.want {
			t.Errorf("%+v: %v", test.proxy, got)
		}
	}
}

// Each turn is compared with that of nginx in the same round.
func TestRatios(t *testing.T) {
	s := scenarioResult{Proxies: []*proxyResult{
		{Name: nginxName, Samples: []sample{{Round: 1, CPUMicros: 10}, {Round: 2, CPUMicros: 20}}},
		{Name: slipwayName, Samples: []sample{{Round: 1, CPUMicros: 11}, {Round: 2, CPUMicros: 24}, {Round: 3, CPUMicros: 99}}},
	}}
	if got := spreadOf(s.Proxies[1].ratios(s.base(0), costOf), ratio.value); got != (spread{(1.1 + 1.2) / 2, 1.1, 1.2}) {
		t.Errorf("got %v", got)
	}
}

func TestParseCalls(t *testing.T) {
	const table = `% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.600000           1      2000       100 read
 40.00    0.400000           1      1000           write
------ ----------- ----------- --------- --------- ----------------
100.00    1.000000           1      3000       100 total
`
	got, err := parseCalls(strings.NewReader(table))
	if err != nil || !reflect.DeepEqual(perRequest(got, 1000), map[string]float64{"read": 2, "write": 1}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := parseCalls(strings.NewReader("strace: attach: Operation not permitted\n")); err == nil {
		t.Errorf("no table: got %v", got)
	}
}
